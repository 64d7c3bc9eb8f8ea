package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// fromVocabTxt builds BERT's WordPiece from vocab.txt, one token per line, with
// tokenizer_config.json's normalizer options.
func fromVocabTxt(blob []byte, config map[string]any) (*Tokenizer, error) {
	switch class, _ := config["tokenizer_class"].(string); strings.TrimSuffix(class, "Fast") {
	case "", "BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer", "SqueezeBertTokenizer",
		"ConvBertTokenizer", "LayoutLMTokenizer", "PreTrainedTokenizer":
	default:
		return nil, fmt.Errorf("tokenizer_class %q of tokenizer_config.json is not supported without a tokenizer.json", class)
	}
	vocab := map[string]int32{}
	lines := strings.Split(strings.TrimSuffix(string(blob), "\n"), "\n")
	for i, line := range lines {
		line = strings.TrimSuffix(line, "\r")
		if !utf8.ValidString(line) {
			return nil, fmt.Errorf("line %d is not UTF-8: %.40q", i+1, line)
		}
		if line != "" {
			vocab[line] = int32(i) // the last of duplicates
		}
	}
	config = withNames(config, bertNames)
	said := func(key string, or any) any {
		if v, ok := config[key].(bool); ok {
			return v
		}
		return or
	}
	t := &Tokenizer{parts: parts{Config: config}}
	t.parts.Normalizer = plainSection(map[string]any{"type": "BertNormalizer", "clean_text": true,
		"handle_chinese_chars": said("tokenize_chinese_chars", true), "strip_accents": said("strip_accents", nil), "lowercase": said("do_lower_case", true)})
	t.parts.PreTokenizer = plainSection(map[string]any{"type": "BertPreTokenizer"})
	t.parts.Decoder = plainSection(map[string]any{"type": "WordPiece", "prefix": "##", "cleanup": true})
	var err error
	if t.added, err = addedTokens(config, vocab, nil); err != nil {
		return nil, err
	}
	if err := t.setVocab(vocab); err != nil {
		return nil, err
	}
	cls, sep, err := bertEnds(config, vocab)
	if err != nil {
		return nil, err
	}
	t.parts.PostProcessor = plainSection(map[string]any{"type": "BertProcessing", "cls": cls, "sep": sep})
	unk := configToken(config, "unk_token")
	if t.model, err = newWordPiece(&wordsJSON{Unk: &unk, Vocab: vocab}); err != nil {
		return nil, err
	}
	if err := t.readParts(); err != nil {
		return nil, err
	}
	t.finish()
	return t, nil
}
