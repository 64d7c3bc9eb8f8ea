package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// decoder is the section "decoder" of tokenizer.json.
type decoder struct {
	// steps transform single tokens. Results are cached by id in Tokenizer.texts.
	steps []decodeStep
	// fused: later steps apply to the full text.
	fused bool
	// Numbers of one character to strip at the ends of the whole text.
	edge        string
	left, right int
}

// decodeStep transforms a token.
type decodeStep struct {
	change      func(token string, first, last bool) string
	first, last bool // whether the step depends on these
	alphabet    bool // reads GPT-2's byte alphabet, which only model tokens use
}

// text returns a token's text; added marks added tokens.
func (d *decoder) text(token string, added, first, last bool) string {
	for _, s := range d.steps {
		if !added || !s.alphabet {
			token = s.change(token, first, last)
		}
	}
	return token
}

// firstMatters and lastMatters report whether a token's text depends on its position.
func (d *decoder) firstMatters() bool {
	for _, s := range d.steps {
		if s.first {
			return true
		}
	}
	return false
}

func (d *decoder) lastMatters() bool {
	for _, s := range d.steps {
		if s.last {
			return true
		}
	}
	return false
}

// everywhere adds a step that depends only on the token.
func (d *decoder) everywhere(change func(token string) string) {
	d.steps = append(d.steps, decodeStep{change: func(token string, _, _ bool) string { return change(token) }})
}

// joined is the default decoder: tokens joined by spaces.
func joined() decoder {
	d := decoder{}
	d.steps = append(d.steps, decodeStep{first: true, change: func(token string, first, _ bool) string {
		if first {
			return token
		}
		return " " + token
	}})
	return d
}

func (d *decoder) read(raw json.RawMessage) error {
	var n struct {
		Type        string            `json:"type"`
		Decoders    []json.RawMessage `json:"decoders"`
		Prefix      *string           `json:"prefix"`
		Cleanup     *bool             `json:"cleanup"`
		Replacement string            `json:"replacement"`
		AddPrefix   *bool             `json:"add_prefix_space"`
		Scheme      *string           `json:"prepend_scheme"`
		Pattern     *pattern          `json:"pattern"`
		Content     string            `json:"content"`
		Start       int               `json:"start"`
		Stop        int               `json:"stop"`
		Suffix      *string           `json:"suffix"`
	}
	if err := decode(raw, &n); err != nil {
		return err
	}
	if d.fused && n.Type != "Sequence" && n.Type != "Fuse" && (n.Type != "Strip" || d.edge != "") {
		return fmt.Errorf("%s after Fuse is not supported", n.Type)
	}
	switch n.Type {
	case "Sequence":
		for _, part := range n.Decoders {
			if err := d.read(part); err != nil {
				return err
			}
		}
	case "ByteLevel":
		d.steps = append(d.steps, decodeStep{alphabet: true, change: func(token string, _, _ bool) string {
			bytes, _ := fromRunes(token)
			return bytes
		}})
	case "ByteFallback":
		d.everywhere(func(token string) string {
			if b, ok := byteOf(token); ok {
				return string([]byte{b})
			}
			return token
		})
	case "Fuse":
		d.fused = true
	case "Replace":
		change, err := n.Pattern.replace(n.Content)
		if err != nil {
			return err
		}
		d.everywhere(change)
	case "Strip":
		if utf8.RuneCountInString(n.Content) != 1 || n.Start < 0 || n.Stop < 0 {
			return fmt.Errorf("Strip needs a content of one character, and the counts start and stop")
		}
		if d.fused {
			d.edge, d.left, d.right = n.Content, n.Start, n.Stop
			break
		}
		d.everywhere(func(token string) string {
			return trimRight(trimLeft(token, n.Content, n.Start), n.Content, n.Stop)
		})
	case "Metaspace":
		if n.Replacement == "" {
			return fmt.Errorf("Metaspace needs a replacement")
		}
		keep := n.Scheme != nil && *n.Scheme == "never" || n.Scheme == nil && !orTrue(n.AddPrefix)
		d.steps = append(d.steps, decodeStep{first: !keep, change: func(token string, first, _ bool) string {
			if first && !keep {
				return strings.ReplaceAll(token, n.Replacement, "")
			}
			return strings.ReplaceAll(token, n.Replacement, " ")
		}})
	case "WordPiece":
		prefix, cleanup := "##", orTrue(n.Cleanup)
		if n.Prefix != nil {
			prefix = *n.Prefix
		}
		d.steps = append(d.steps, wordPieceStep(prefix, cleanup))
	case "BPEDecoder":
		suffix := "</w>"
		if n.Suffix != nil {
			suffix = *n.Suffix
		}
		if suffix == "" {
			return fmt.Errorf("BPEDecoder needs a suffix")
		}
		d.steps = append(d.steps, decodeStep{last: true, change: func(token string, _, last bool) string {
			if last {
				return strings.ReplaceAll(token, suffix, "")
			}
			return strings.ReplaceAll(token, suffix, " ")
		}})
	default:
		return unknownType(n.Type, "Sequence", "ByteLevel", "ByteFallback", "Fuse", "Replace", "Strip", "Metaspace", "WordPiece", "BPEDecoder")
	}
	return nil
}

// wordPieceStep puts a space before tokens without prefix. cleanup removes it before punctuation.
func wordPieceStep(prefix string, cleanup bool) decodeStep {
	return decodeStep{first: true, change: func(token string, first, _ bool) string {
		if rest, ok := strings.CutPrefix(token, prefix); ok && !first {
			token = rest
		} else if !first {
			token = " " + token
		}
		for i := 0; cleanup && i < len(cleanups); i++ {
			token = strings.ReplaceAll(token, cleanups[i][0], cleanups[i][1])
		}
		return token
	}}
}

var cleanups = [][2]string{
	{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"}, {" 'm", "'m"},
	{" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
}

func trimLeft(s, what string, n int) string {
	for ; n > 0 && strings.HasPrefix(s, what); n-- {
		s = s[len(what):]
	}
	return s
}

func trimRight(s, what string, n int) string {
	for ; n > 0 && strings.HasSuffix(s, what); n-- {
		s = s[:len(s)-len(what)]
	}
	return s
}
