package data

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The values of Config.Format.
const (
	FormatAuto    = "auto"
	FormatText    = "text"
	FormatJSONL   = "jsonl"
	FormatCSV     = "csv"
	FormatTSV     = "tsv"
	FormatParquet = "parquet"
	FormatTokens  = "tokens"
	FormatGo      = "go_source"
)

// The values of Config.InvalidUTF8.
const (
	utf8Error   = "error"
	utf8Replace = "replace"
)

// The values of Config.TrainOn.
const (
	trainAnswers = "answers"
	trainAll     = "all"
)

// The values of Config.ChatTemplate that are no file.
const (
	chatMLName      = "chatml"
	chatOfTokenizer = "tokenizer"
)

// textLength is sequence_length for text when nothing is said.
const textLength = 512

// Config is the node `data` of the configuration. DefaultConfig is where it begins.
type Config struct {
	// Path is a file, a folder that is read with all below it, or a glob, in which ** is any
	// number of folders; files are in the order of names. Text files may be compressed: .gz,
	// .zst. In a folder, files called README, LICENSE or dataset_info are passed over, and
	// where names tell of splits, as train.jsonl or data/train-00000-of-00002.parquet do,
	// those for training are read alone. For go_source it is the standard library's folder;
	// empty is the one of the Go on this machine. The commands also take a data set's name on
	// the hub, OWNER/NAME/FOLDER@REVISION, here and in eval_path and, a model's, in tokenizer.
	Path string `yaml:"path"`
	// EvalPath is held-out data, read as Path is; of a folder with splits, those for
	// validation, or else for testing. Empty is the same of Path's folder where
	// eval_fraction is 0, and else none.
	EvalPath string `yaml:"eval_path"`
	// EvalFraction of Path's rows, spread evenly over it, is held out when there is no
	// EvalPath. Default 0.
	EvalFraction float64 `yaml:"eval_fraction"`
	// Format names what the files are, or what a row of them is. Files: text (a file is a
	// document), jsonl (a line, or an element of a list, is an object), csv and tsv (values
	// below a header), parquet, tokens (token files as this program's cache, nanoGPT or llm.c
	// hold them, or arrays of NumPy), go_source (the source of Go's standard library). Rows:
	// input_ids (and perhaps labels, attention_mask and label), alpaca (instruction, output,
	// and perhaps input, system and history), prompt_completion (or question and answer, input
	// and output, and the like; two texts, or two lists of messages), chat (messages: role,
	// content), sharegpt (conversations: from, value), segments (segments: text, label),
	// classification (text, or two texts, and label). auto, the default: files are what the
	// endings of their names say, .jsonl, .json, .csv, .tsv, .parquet, .tok, .bin, .npy, and
	// text; rows are what the keys of the first say, where a row with a text and nothing else
	// that is known is a document. What was taken is printed.
	Format string `yaml:"format"`
	// Columns renames: under which key the files have what is called text, text_pair, label,
	// prompt, completion, instruction, input, output, system, history, messages,
	// conversations, role, content, from, value, tools or segments here, as in {prompt:
	// question}.
	Columns map[string]string `yaml:"columns"`
	// TrainOn: answers, the default, learns of rows that have a prompt what answers it, each
	// answer with its end; all learns all of a row.
	TrainOn string `yaml:"train_on"`
	// RolesToTrain are the roles whose messages are answers. Default assistant. A message with
	// weight 0 is none.
	RolesToTrain []string `yaml:"roles_to_train"`
	// ChatTemplate makes text of messages: tokenizer is the tokenizer's own, chatml one that is
	// built in, else a file in the language of tokenizer_config.json's chat_template. Empty is
	// the tokenizer's where rows have messages; with any other value rows of alpaca and
	// prompt_completion become messages too. Templates that ask for the date are told 26 Jul
	// 2024, so that rows do not change from day to day.
	ChatTemplate string `yaml:"chat_template"`
	// TextField is the key of a row's text: columns.text by its older name. Default text.
	TextField string `yaml:"text_field"`
	// Tokenizer is a directory or a tokenizer.json; empty is the model's own.
	Tokenizer string `yaml:"tokenizer"`
	// SequenceLength is the positions of a row. 0, the default, is the longest row's, and 512
	// for text, or the model's where it has fewer.
	SequenceLength int `yaml:"sequence_length"`
	// MLMProbability is how likely a token is chosen to be learned by a model that fills in
	// masked tokens. Default 0.15.
	MLMProbability float64 `yaml:"mlm_probability"`
	// Packing joins the documents of a text, the end-of-text token between them, and cuts them
	// into rows of sequence_length; what is left at the end is not used. Otherwise a document
	// is a row, padded. Rows with answers are packed whole, one after the other while they
	// fit, and kept apart. Rows of input_ids or with a label of the row are never packed.
	// Default true for text and false for rows with answers.
	Packing *bool `yaml:"packing"`
	// DocumentMask keeps packed documents apart: no position sees another document or is to
	// predict its beginning, and positions count from each document's start. Default false,
	// as is usual in training on text.
	DocumentMask bool `yaml:"document_mask"`
	// Truncate cuts off the end of rows and unpacked documents that are longer than
	// sequence_length; answers that it takes are not learned, and rows without any left are
	// not used. Default false: they are an error. Rows of the format classification are always
	// cut, before the token that ends them.
	Truncate bool `yaml:"truncate"`
	// PadToLongest pads rows to the longest there is, of those held out too, where that is
	// shorter than sequence_length. Default false: to sequence_length.
	PadToLongest bool `yaml:"pad_to_longest"`
	// Shuffle puts the rows in another order each epoch, as torch's DistributedSampler does.
	// Default true.
	Shuffle bool `yaml:"shuffle"`
	// DropLast leaves out rows that do not make a whole global batch. Default false: rows
	// from the front of the epoch fill it.
	DropLast bool `yaml:"drop_last"`
	// InvalidUTF8: error, the default, or replace, which puts U+FFFD where text is not UTF-8.
	InvalidUTF8 string `yaml:"invalid_utf8"`
	// MaxBytes is how much text of go_source is read; 0 is 16 MiB.
	MaxBytes int64 `yaml:"max_bytes"`
	// CacheDir is where texts are kept as tokens; empty is trireme in the user's cache directory.
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
		errs = append(errs, fmt.Errorf("data: format %q is not one of %s", c.Format, strings.Join(formats, ", ")))
	}
	if c.Path == "" && c.Format != FormatGo {
		errs = append(errs, errors.New("data: path names no file. try: --set data.path=train.jsonl"))
	}
	if c.SequenceLength < 0 {
		errs = append(errs, fmt.Errorf("data: sequence_length is %d: it must not be negative", c.SequenceLength))
	}
	if !(c.EvalFraction >= 0 && c.EvalFraction < 1) {
		errs = append(errs, fmt.Errorf("data: eval_fraction is %v: it must be at least 0 and below 1", c.EvalFraction))
	}
	if c.EvalFraction > 0 && c.EvalPath != "" {
		errs = append(errs, errors.New("data: eval_path and eval_fraction both name held-out data. try: one of them"))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Columns)) {
		if !slices.Contains(columnNames, name) {
			errs = append(errs, fmt.Errorf("data: columns renames %q, which is none of %s", name, strings.Join(columnNames, ", ")))
		}
	}
	if text, both := c.Columns["text"]; both && c.textField() != "text" && text != c.textField() {
		errs = append(errs, fmt.Errorf("data: columns.text is %q and text_field %q. try: one of them", text, c.TextField))
	}
	if c.TrainOn != "" && c.TrainOn != trainAnswers && c.TrainOn != trainAll {
		errs = append(errs, fmt.Errorf("data: train_on %q is neither %s nor %s", c.TrainOn, trainAnswers, trainAll))
	}
	if !(c.MLMProbability >= 0 && c.MLMProbability < 1) {
		errs = append(errs, fmt.Errorf("data: mlm_probability is %v: it must be between 0 and 1", c.MLMProbability))
	}
	if c.DocumentMask && !c.packs(true) {
		errs = append(errs, errors.New("data: document_mask keeps packed documents apart, and packing is false. try: one of them"))
	}
	if c.InvalidUTF8 != "" && c.InvalidUTF8 != utf8Error && c.InvalidUTF8 != utf8Replace {
		errs = append(errs, fmt.Errorf("data: invalid_utf8 %q is neither %s nor %s", c.InvalidUTF8, utf8Error, utf8Replace))
	}
	if c.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("data: max_bytes is %d: it must not be negative", c.MaxBytes))
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
