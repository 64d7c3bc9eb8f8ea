package data

import (
	"errors"
	"maps"
	"slices"

	"trireme/fault"
	"trireme/internal/conf"
)

// The values of Config.Format.
const (
	FormatAuto     = "auto"
	FormatText     = "text"
	FormatJSONL    = "jsonl"
	FormatCSV      = "csv"
	FormatTSV      = "tsv"
	FormatParquet  = "parquet"
	FormatTokens   = "tokens"
	FormatGoSource = "go_source"
)

// InvalidUTF8 is what happens to text that is not UTF-8.
type InvalidUTF8 string

const (
	utf8Error   InvalidUTF8 = "error"
	utf8Replace InvalidUTF8 = "replace"
)

// Choices are the names.
func (InvalidUTF8) Choices() []string { return []string{string(utf8Error), string(utf8Replace)} }

// TrainOn is which tokens of rows with a prompt are labels.
type TrainOn string

const (
	trainAnswers TrainOn = "answers"
	trainAll     TrainOn = "all"
)

// Choices are the names.
func (TrainOn) Choices() []string { return []string{string(trainAnswers), string(trainAll)} }

// The values of Config.ChatTemplate that are no file.
const (
	chatMLName      = "chatml"
	chatOfTokenizer = "tokenizer"
)

// textLength is sequence_length for text when nothing is said.
const textLength = 512

// Config is the node `data`: the training and evaluation data, and how rows are made of it.
type Config struct {
	// Path is a file, a directory (read recursively) or a glob, in which ** matches any number of
	// directories; files are read in the order of their names. Text files may be compressed with
	// gzip or zstd. In a directory, README, LICENSE and dataset_info files are skipped, and if
	// names contain splits, as train.jsonl or data/train-00000-of-00002.parquet do, only those
	// for training are read. For go_source it is the standard library's directory; empty is that
	// of the installed Go. Commands also take a data set on the hub, OWNER/NAME/FOLDER@REVISION,
	// here and in eval_path. Default "".
	Path string `yaml:"path"`
	// EvalPath is the evaluation data, in the same forms as path. In a directory with splits it
	// is those for validation, or else for testing. Empty, with eval_fraction 0: those splits
	// in path's directory, if there are any. Default "".
	EvalPath string `yaml:"eval_path"`
	// Split is the part of path to train on, as load_dataset of Hugging Face's datasets takes it:
	// train[:1000] is the first 1000 rows, train[10%:20%] and train[-500:] others, and + joins
	// parts, as in train+validation. Without splits in path's names, all rows are train. Slices
	// are of rows as the files hold them, so text and token files have none. Empty: all rows for
	// training. Default "".
	Split string `yaml:"split"`
	// EvalSplit is the part of eval_path, or of path if that is empty, to evaluate on, in the same
	// form: validation[:10%]. Use it or eval_fraction. Default "".
	EvalSplit string `yaml:"eval_split"`
	// EvalFraction is the share of the rows in path, evenly spread, that is kept for evaluation
	// and not trained on. Use it or eval_path. Default 0.
	EvalFraction float64 `yaml:"eval_fraction"`
	// Format is the format of the files, or of the rows in them. One of auto | text | jsonl | csv |
	// tsv | parquet | tokens | go_source | input_ids | alpaca | prompt_completion | chat | sharegpt
	// | segments | classification. auto goes by file extensions, and by the keys of the first row.
	// Files: text (one document a file), jsonl (one object a line), csv and tsv (with a
	// header), parquet, tokens (files of token ids: this program's cache, nanoGPT's, llm.c's,
	// NumPy arrays), go_source (Go's standard library). Rows: input_ids (labels,
	// attention_mask and label optional), alpaca (instruction, output; input, system, history
	// optional), prompt_completion (also question and answer, input and output, and so on), chat
	// (messages with role and content), sharegpt (conversations with from and value), segments
	// (segments with text and label), classification (one or two texts, and label). The format
	// found is printed. Default auto.
	Format string `yaml:"format"`
	// Columns renames the keys of rows, as in {prompt: question}: text, text_pair, label, prompt,
	// completion, instruction, input, output, system, history, messages, conversations, role,
	// content, from, value, tools, segments.
	Columns map[string]string `yaml:"columns"`
	// TrainOn selects the label tokens of rows that have a prompt. One of answers | all. answers
	// trains on the answers, each with its end token; all trains on the whole row. Default answers.
	TrainOn TrainOn `yaml:"train_on"`
	// RolesToTrain are the roles whose messages are trained on; empty is assistant. A message with
	// weight 0 is not. Default [].
	RolesToTrain []string `yaml:"roles_to_train"`
	// ChatTemplate turns messages into text: tokenizer is the tokenizer's own template, chatml is
	// built in, anything else is a file with a Jinja template as in tokenizer_config.json. Empty
	// is the tokenizer's for rows with messages; with any other value, rows of alpaca and
	// prompt_completion become messages too. Templates that ask for the date get 26 Jul 2024,
	// so that rows are the same every day. Default "".
	ChatTemplate string `yaml:"chat_template"`
	// TextField is the key of a row's text; columns.text is the same. Default text.
	TextField string `yaml:"text_field"`
	// Tokenizer is a directory, a tokenizer.json or a model's name on the hub; empty is the
	// model's own tokenizer. Default "".
	Tokenizer string `yaml:"tokenizer"`
	// SequenceLength is the number of positions in a row. 0 is the longest row, or for text 512
	// or the model's maximum if that is less. Default 0.
	SequenceLength int `yaml:"sequence_length"`
	// MLMProbability is the probability that a token is masked and trained on, for masked
	// language models; 0 is 0.15. Default 0.
	MLMProbability float64 `yaml:"mlm_probability"`
	// Packing fills rows with several documents. Text: documents are joined, with the end-of-text
	// token between them, and cut into rows of sequence_length; an incomplete last row is dropped.
	// Rows with answers: whole rows are put together while they fit, and cannot see one another.
	// Without packing a document is one row. Rows are never padded. Rows of input_ids or with a
	// class label are never packed. null is true for text and false for rows with answers. Default null.
	Packing *bool `yaml:"packing"`
	// DocumentMask isolates packed documents: no position sees another document or predicts
	// its beginning, and positions restart with each document. Default false.
	DocumentMask bool `yaml:"document_mask"`
	// Truncate cuts rows and unpacked documents that are longer than sequence_length; without it
	// they are an error. Answers that are cut off are not trained on, and rows that lose all
	// labels are skipped. Rows of the format classification are always truncated. Default false.
	Truncate bool `yaml:"truncate"`
	// PadToLongest takes the longest row of training and evaluation data for sequence_length, as
	// collators that pad to it do: memory is reserved for rows as long as that. Nothing is padded
	// either way. Default false.
	PadToLongest bool `yaml:"pad_to_longest"`
	// Shuffle reorders rows each epoch, in the order of torch's DistributedSampler. Default true.
	Shuffle bool `yaml:"shuffle"`
	// DropLast drops the rows at the end of an epoch that do not fill a global batch; without it
	// rows from the beginning of the epoch fill it. Default false.
	DropLast bool `yaml:"drop_last"`
	// InvalidUTF8 is what happens to text that is not UTF-8. One of error | replace. replace puts
	// U+FFFD. Default error.
	InvalidUTF8 InvalidUTF8 `yaml:"invalid_utf8"`
	// MaxRowBytes is the size of the largest row that is read, in bytes: of a line of JSON or of
	// values, an element of a JSON list, a text in a Parquet file. A larger row is an error.
	// Reading a row takes up to 20 times its size of memory. Text files are read in pieces and
	// may have any size. 0 is 32 MiB. Default 0.
	MaxRowBytes int64 `yaml:"max_row_bytes"`
	// AllowChanged continues a run although its data or its tokenizer differ from those it began
	// with; otherwise that is refused. Default false.
	AllowChanged bool `yaml:"allow_changed"`
	// MaxBytes is how much text of go_source is read, in bytes; 0 is 16 MiB. Default 0.
	MaxBytes int64 `yaml:"max_bytes"`
	// CacheDir is where tokenized data is kept; empty is trireme in the user's cache directory.
	// Default "".
	CacheDir string `yaml:"cache_dir"`
}

// DefaultConfig is the configuration of a file that says nothing.
func DefaultConfig() Config {
	return Config{Format: FormatAuto, TextField: "text", TrainOn: trainAnswers, InvalidUTF8: utf8Error, Shuffle: true}
}

// Validate checks what does not depend on the files.
func (c Config) Validate() error {
	var errs []error
	formats := slices.Concat([]string{FormatAuto}, fileFormats, rowFormats)
	if c.Format != "" && !slices.Contains(formats, c.Format) {
		errs = append(errs, fault.At("format", "%w", conf.NotOneOf(c.Format, formats...)))
	}
	if c.Path == "" && c.Format != FormatGoSource {
		errs = append(errs, fault.Try(fault.At("path", "names no file"), "%s", fault.Set("data.path", "train.jsonl")))
	}
	if c.SequenceLength < 0 {
		errs = append(errs, fault.At("sequence_length", "is %d: it must not be negative", c.SequenceLength))
	}
	if !(c.EvalFraction >= 0 && c.EvalFraction < 1) {
		errs = append(errs, fault.At("eval_fraction", "is %v: it must be at least 0 and below 1", c.EvalFraction))
	}
	if c.EvalFraction > 0 && c.EvalPath != "" {
		errs = append(errs, fault.Try(errors.New("eval_path and eval_fraction both name an evaluation set"), "one of them"))
	}
	if c.EvalFraction > 0 && c.EvalSplit != "" {
		errs = append(errs, fault.Try(errors.New("eval_split and eval_fraction both name evaluation data"), "one of them"))
	}
	for _, s := range []struct{ key, text string }{{"split", c.Split}, {"eval_split", c.EvalSplit}} {
		if s.text == "" {
			continue
		}
		if _, err := parseSplit(s.text); err != nil {
			errs = append(errs, fault.At(s.key, "%w", err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Columns)) {
		if !slices.Contains(columnNames, name) {
			errs = append(errs, fault.At("columns", "%w", conf.NotOneOf(name, columnNames...)))
		}
	}
	if text, both := c.Columns["text"]; both && c.textField() != "text" && text != c.textField() {
		errs = append(errs, fault.Try(fault.At("columns.text", "is %q and text_field %q", text, c.TextField), "one of them"))
	}
	if !(c.MLMProbability >= 0 && c.MLMProbability < 1) {
		errs = append(errs, fault.At("mlm_probability", "is %v: it must be between 0 and 1", c.MLMProbability))
	}
	if c.DocumentMask && !c.packs(true) {
		errs = append(errs, fault.Try(errors.New("document_mask keeps packed documents apart, and packing is false"), "one of them"))
	}
	if c.MaxRowBytes < 0 || c.MaxRowBytes > 1<<30 {
		errs = append(errs, fault.At("max_row_bytes", "is %d: it must be between 0 and %d", c.MaxRowBytes, 1<<30))
	}
	if c.MaxBytes < 0 {
		errs = append(errs, fault.At("max_bytes", "is %d: it must not be negative", c.MaxBytes))
	}
	return errors.Join(errs...)
}

// packs says whether rows are packed, where they are or are not unless something is said.
func (c Config) packs(unless bool) bool {
	if c.Packing == nil {
		return unless
	}
	return *c.Packing
}

// columns are the names that the files have, of c.Columns and c.TextField.
func (c Config) columns() columns {
	out := columns(maps.Clone(c.Columns))
	if out == nil {
		out = columns{}
	}
	if out["text"] == "" && c.textField() != "text" {
		out["text"] = c.textField()
	}
	return out
}

func (c Config) textField() string {
	if c.TextField == "" {
		return "text"
	}
	return c.TextField
}
