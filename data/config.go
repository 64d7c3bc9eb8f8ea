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

// InvalidUTF8 selects how text that is not UTF-8 is handled.
type InvalidUTF8 string

const (
	utf8Error   InvalidUTF8 = "error"
	utf8Replace InvalidUTF8 = "replace"
)

// Choices lists the values.
func (InvalidUTF8) Choices() []string { return []string{string(utf8Error), string(utf8Replace)} }

// TrainOn selects the label tokens of rows that have a prompt.
type TrainOn string

const (
	trainAnswers TrainOn = "answers"
	trainAll     TrainOn = "all"
)

// Choices lists the values.
func (TrainOn) Choices() []string { return []string{string(trainAnswers), string(trainAll)} }

// The values of Config.ChatTemplate that are not a path.
const (
	chatMLName      = "chatml"
	chatOfTokenizer = "tokenizer"
)

// textLength is the default sequence_length of text.
const textLength = 512

// Config is the node `data`: the training and evaluation data, and how it becomes rows.
type Config struct {
	// Path is a file, a directory (read recursively) or a glob, where ** matches any number of
	// directories. Files are read in the order of their names; text files may be compressed with
	// gzip or zstd. A directory's README, LICENSE and dataset_info files are skipped. If file names
	// contain splits, as in train.jsonl or data/train-00000-of-00002.parquet, only the training
	// split is read. With format go_source, the directory of the Go standard library; empty is that
	// of the installed Go. Commands also accept a data set on the hub, OWNER/NAME/FOLDER@REVISION,
	// and an object, a directory or a glob in an object store, s3://BUCKET/KEY
	// (docs/object-stores.md), here and in eval_path. Default "".
	Path string `yaml:"path"`
	// EvalPath is the evaluation data, in the forms of path. In a directory with splits, the
	// validation split is read, or else the test split. If empty and eval_fraction is 0, path's own
	// validation or test split is used, if it has one. Default "".
	EvalPath string `yaml:"eval_path"`
	// Split selects the training rows of path in the syntax of load_dataset in Hugging Face's
	// datasets: train[:1000] is the first 1000 rows, train[10%:20%] and train[-500:] are other
	// ranges, and + joins parts, as in train+validation. If no file name contains a split, all rows
	// are train. Text and token files cannot be sliced. Empty is all training rows. Default "".
	Split string `yaml:"split"`
	// EvalSplit selects the evaluation rows of eval_path, or of path if eval_path is empty, in the
	// syntax of split: validation[:10%]. Cannot be combined with eval_fraction. Default "".
	EvalSplit string `yaml:"eval_split"`
	// EvalFraction is the fraction of path's rows, spread evenly, used for evaluation instead of
	// training. Cannot be combined with eval_path. Default 0.
	EvalFraction float64 `yaml:"eval_fraction"`
	// Format is the format of the files, or of the rows in them. One of auto | text | jsonl | csv |
	// tsv | parquet | tokens | go_source | input_ids | alpaca | prompt_completion | chat | sharegpt
	// | segments | classification. auto detects it from file extensions and the keys of the first
	// row, and prints it. Files: text (one document per file), jsonl (one object per line), csv and
	// tsv (with a header), parquet, tokens (token ids: this program's cache, nanoGPT's, llm.c's,
	// NumPy arrays), go_source (Go's standard library). Rows: input_ids (optional labels,
	// attention_mask, label), alpaca (instruction, output; optional input, system, history),
	// prompt_completion (also question and answer, input and output, and others), chat (messages
	// with role and content), sharegpt (conversations with from and value), segments (segments with
	// text and label), classification (one or two texts, and label). Default auto.
	Format string `yaml:"format"`
	// Columns maps names to the keys of your rows, as in {prompt: question}. Names: text,
	// text_pair, label, prompt, completion, instruction, input, output, system, history, messages,
	// conversations, role, content, from, value, tools, segments.
	Columns map[string]string `yaml:"columns"`
	// TrainOn selects the label tokens of rows that have a prompt. One of answers | all. answers
	// computes the loss on the answers and their end tokens; all computes it on the whole row.
	// Default answers.
	TrainOn TrainOn `yaml:"train_on"`
	// RolesToTrain lists the roles whose messages are label tokens; empty is assistant. Messages
	// with weight 0 are excluded. Default [].
	RolesToTrain []string `yaml:"roles_to_train"`
	// ChatTemplate renders messages as text: tokenizer is the tokenizer's own template, chatml is
	// built in, anything else is the path of a Jinja template as in tokenizer_config.json. Empty
	// uses the tokenizer's template for rows with messages; any other value also renders alpaca and
	// prompt_completion rows as messages. The date in templates is always 26 Jul 2024, so rows do
	// not change from day to day. Default "".
	ChatTemplate string `yaml:"chat_template"`
	// TextField is the key of a row's text, the same as columns.text. Default text.
	TextField string `yaml:"text_field"`
	// Tokenizer is a directory, a tokenizer.json or a model's name on the hub; empty is the model's
	// own tokenizer. Default "".
	Tokenizer string `yaml:"tokenizer"`
	// SequenceLength is the maximum number of tokens in a row. 0 is the longest row; for text, 512
	// or the model's maximum if that is less. Default 0.
	SequenceLength int `yaml:"sequence_length"`
	// MLMProbability is the probability that a token is masked, for masked language models; 0 is
	// 0.15. Default 0.
	MLMProbability float64 `yaml:"mlm_probability"`
	// Packing puts several documents into a row. Text: documents are concatenated, separated by the
	// end-of-text token, and split into rows of sequence_length; an incomplete last row is dropped.
	// Rows with answers: whole rows are combined while they fit, and do not attend to each other.
	// Without packing, each document is a row. Rows are never padded. Rows of input_ids or with a
	// class label are never packed. null is true for text and false for rows with answers. Default
	// null.
	Packing *bool `yaml:"packing"`
	// DocumentMask isolates packed documents: no position attends to another document or predicts
	// its first token, and positions restart at 0 in each document. Default false.
	DocumentMask bool `yaml:"document_mask"`
	// Truncate shortens rows and unpacked documents longer than sequence_length; without it they
	// are an error. Rows that lose all their labels are skipped. Rows of the format classification
	// are always truncated. Default false.
	Truncate bool `yaml:"truncate"`
	// PadToLongest uses the length of the longest training or evaluation row as sequence_length, as
	// collators that pad to it do: memory is planned for rows of that length. Rows are not padded.
	// Default false.
	PadToLongest bool `yaml:"pad_to_longest"`
	// Shuffle permutes the rows each epoch, in the order of torch's DistributedSampler. Default
	// true.
	Shuffle bool `yaml:"shuffle"`
	// DropLast drops the rows at the end of an epoch that do not fill a global batch; without it
	// the batch is filled with rows from the start of the epoch. Default false.
	DropLast bool `yaml:"drop_last"`
	// InvalidUTF8 selects how text that is not UTF-8 is handled. One of error | replace. replace
	// substitutes U+FFFD. Default error.
	InvalidUTF8 InvalidUTF8 `yaml:"invalid_utf8"`
	// MaxRowBytes is the maximum size of a row in bytes: a line of JSONL, CSV or TSV, an element of
	// a JSON list, a value in a Parquet file. A larger row is an error. Reading a row takes up to
	// 20 times its size of memory. Text files are read in pieces and may have any size. 0 is 32
	// MiB. Default 0.
	MaxRowBytes int64 `yaml:"max_row_bytes"`
	// AllowChanged resumes a run although its data or tokenizer changed since it started; otherwise
	// that is an error. Default false.
	AllowChanged bool `yaml:"allow_changed"`
	// MaxBytes is the maximum amount of text of go_source, in bytes; 0 is 16 MiB. Default 0.
	MaxBytes int64 `yaml:"max_bytes"`
	// CacheDir is the directory for tokenized data; empty is trireme in the user's cache directory.
	// Default "".
	CacheDir string `yaml:"cache_dir"`
}

// DefaultConfig returns the configuration of an empty file.
func DefaultConfig() Config {
	return Config{Format: FormatAuto, TextField: "text", TrainOn: trainAnswers, InvalidUTF8: utf8Error, Shuffle: true}
}

// Validate checks the configuration without reading any file.
func (c Config) Validate() error {
	var errs []error
	formats := slices.Concat([]string{FormatAuto}, fileFormats, rowFormats)
	if c.Format != "" && !slices.Contains(formats, c.Format) {
		errs = append(errs, fault.At("format", "%w", conf.NotOneOf(c.Format, formats...)))
	}
	if c.Path == "" && c.Format != FormatGoSource {
		errs = append(errs, fault.Try(fault.At("path", "not set"), "%s", fault.Set("data.path", "train.jsonl")))
	}
	if c.SequenceLength < 0 {
		errs = append(errs, fault.At("sequence_length", "is %d: it must not be negative", c.SequenceLength))
	}
	if !(c.EvalFraction >= 0 && c.EvalFraction < 1) {
		errs = append(errs, fault.At("eval_fraction", "is %v: it must be at least 0 and below 1", c.EvalFraction))
	}
	if c.EvalFraction > 0 && c.EvalPath != "" {
		errs = append(errs, fault.Try(errors.New("eval_path and eval_fraction are both set"), "one of them"))
	}
	if c.EvalFraction > 0 && c.EvalSplit != "" {
		errs = append(errs, fault.Try(errors.New("eval_split and eval_fraction are both set"), "one of them"))
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
		errs = append(errs, fault.Try(errors.New("document_mask applies to packed documents, but packing is false"), "one of them"))
	}
	if c.MaxRowBytes < 0 || c.MaxRowBytes > 1<<30 {
		errs = append(errs, fault.At("max_row_bytes", "is %d: it must be between 0 and %d", c.MaxRowBytes, 1<<30))
	}
	if c.MaxBytes < 0 {
		errs = append(errs, fault.At("max_bytes", "is %d: it must not be negative", c.MaxBytes))
	}
	return errors.Join(errs...)
}

// packs returns Packing, or the format's default where it is null.
func (c Config) packs(byDefault bool) bool {
	if c.Packing == nil {
		return byDefault
	}
	return *c.Packing
}

// columns returns Columns with TextField merged in.
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
