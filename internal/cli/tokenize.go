package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"trireme/tokenizer"
)

func newTokenize() *cobra.Command {
	var dir string
	var decode, jsonLines, noSpecial bool
	var training tokenizerTraining
	c := &cobra.Command{
		Use:   "tokenize",
		Short: "encode text as token ids, decode ids, or train a tokenizer",
		Long: `Read lines from standard input and print the token ids of each as a JSON array on one line,
including the special tokens that the model expects. --decode reverses that. With --json_lines
each line of text is a JSON string, which may contain newlines.

A tokenizer is a directory with tokenizer.json, tokenizer.model (sentencepiece), vocab.json
and merges.txt, or vocab.txt (BERT), or one of these files.

--train trains a byte-level BPE on text files, directories (recursive) or globs, and writes
tokenizer.json.`,
		Example: `  trireme tokenize --tokenizer DIR < lines.txt
  trireme tokenize --tokenizer DIR --decode < ids.jsonl
  trireme tokenize --train --vocab_size 4096 --output DIR text.txt`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if training.train {
				if dir != "" || decode || jsonLines || noSpecial {
					return usage("--train excludes --tokenizer, --decode, --json_lines and --no_special_tokens", "")
				}
				return training.run(c, args)
			}
			if c.Flags().Changed("vocab_size") || c.Flags().Changed("output") || c.Flags().Changed("json") {
				return usage("--vocab_size, --output and --json need --train", c.CommandPath()+" --train --help")
			}
			if len(args) > 0 {
				return usage(fmt.Sprintf("text is read from standard input, got argument %q", args[0]), fmt.Sprintf("%s --tokenizer DIR < %s", c.CommandPath(), args[0]))
			}
			if dir == "" {
				return usage("--tokenizer is missing", c.CommandPath()+" --tokenizer DIR")
			}
			found, err := (&locator{stderr: c.ErrOrStderr()}).tokenizer(c.Context(), "", dir)
			if err != nil {
				return err
			}
			if found != nil {
				dir = found.Dir
			}
			t, err := tokenizer.Load(dir)
			if err != nil {
				return &Exit{CodeUsage, err}
			}
			l := lines{in: bufio.NewReaderSize(c.InOrStdin(), 1<<16), out: bufio.NewWriterSize(c.OutOrStdout(), 1<<16)}
			if decode {
				return l.each(func(b []byte, line string) ([]byte, error) {
					return decodeLine(b, line, t, jsonLines, noSpecial)
				})
			}
			var ids []int32
			return l.each(func(b []byte, line string) ([]byte, error) {
				if jsonLines {
					var text *string
					if err := json.Unmarshal([]byte(line), &text); err != nil || text == nil {
						return nil, fmt.Errorf("is not a JSON string: %s. try: without --json_lines, for plain text", snippet(line))
					}
					line = *text
				}
				ids = t.Append(ids[:0], line, tokenizer.Options{AddSpecialTokens: !noSpecial})
				if err := t.Err(); err != nil {
					return nil, fmt.Errorf("has no tokens: %w", err)
				}
				return appendIDs(b, ids), nil
			})
		},
	}
	f := c.Flags()
	f.StringVar(&dir, "tokenizer", "", "tokenizer: a `DIR`, a file, or a model's name on the hub")
	f.BoolVar(&decode, "decode", false, "read arrays of ids, print text")
	f.BoolVar(&jsonLines, "json_lines", false, "each line of text is a JSON string")
	f.BoolVar(&noSpecial, "no_special_tokens", false, "do not add special tokens; with --decode, remove them")
	training.flags(f)
	return c
}

// lines maps lines of in to lines of out.
type lines struct {
	in  *bufio.Reader
	out *bufio.Writer
}

// each calls f with each line, without its newline, and a buffer to append the output to. It flushes
// when no more input is buffered, for interactive use.
func (l lines) each(f func(b []byte, line string) ([]byte, error)) error {
	var buf []byte
	for n := 1; ; n++ {
		line, err := l.in.ReadString('\n')
		if err != nil && err != io.EOF {
			return errors.Join(fmt.Errorf("standard input, line %d: %w", n, err), l.out.Flush())
		}
		if last := err == io.EOF; last && line == "" {
			return l.out.Flush()
		}
		b, err := f(buf[:0], strings.TrimSuffix(line, "\n"))
		if err != nil {
			err = &Exit{CodeUsage, fmt.Errorf("standard input:%d: the line %w", n, err)}
			return errors.Join(err, l.out.Flush())
		}
		buf = append(b, '\n')
		if _, err := l.out.Write(buf); err != nil {
			return fmt.Errorf("standard output: %w", err)
		}
		if l.in.Buffered() == 0 {
			if err := l.out.Flush(); err != nil {
				return fmt.Errorf("standard output: %w", err)
			}
		}
	}
}

func appendIDs(b []byte, ids []int32) []byte {
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return append(b, ']')
}

func decodeLine(b []byte, line string, t *tokenizer.Tokenizer, asJSON, plain bool) ([]byte, error) {
	var ids []int32
	if err := json.Unmarshal([]byte(line), &ids); err != nil {
		return nil, fmt.Errorf("is not a JSON array of ids: %s. try: without --decode, for text", snippet(line))
	}
	for _, id := range ids {
		if id < 0 || int(id) >= t.VocabSize() {
			return nil, fmt.Errorf("has id %d, outside the vocabulary of %d: these ids are another tokenizer's. try: --tokenizer DIR of that one", id, t.VocabSize())
		}
	}
	text := t.Decode(ids)
	if plain {
		text = t.DecodeSkipSpecial(ids)
	}
	if !asJSON {
		return append(b, text...), nil
	}
	s, err := json.Marshal(text)
	return append(b, s...), err
}

// snippet quotes the start of a line for a message.
func snippet(s string) string {
	if len(s) > 40 {
		s = strings.ToValidUTF8(s[:40], "") + "..."
	}
	return strconv.Quote(s)
}
