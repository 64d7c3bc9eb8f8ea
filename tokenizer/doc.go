// Package tokenizer turns text into token ids and back, as the Hugging Face tokenizer of a
// model does, and learns byte-level BPE vocabularies.
//
// A Tokenizer is a chain: added tokens such as <|endoftext|> are cut out of the text, the
// rest is normalised, split into pieces (words with the space before them), each piece is
// divided by the model into tokens, and a template may put tokens around the whole. Load
// reads the chain from tokenizer.json, or from vocab.json with merges.txt; a part that this
// package does not know is an error that names it, never a guess. Train learns one from
// text; Save writes a directory that Load and Hugging Face's libraries read.
//
//	tok, err := tokenizer.Load("model/")
//	ids := tok.Encode("Hello world", tokenizer.Options{Template: true})
//	text := tok.Decode(ids)
//
// The model here is byte-level BPE (GPT-2, GPT-NeoX, Llama 3, Qwen). The patterns of these
// families are code, others run on a regular-expression engine with look-ahead. Bytes that
// are not UTF-8 are kept as they are, so Decode undoes Encode for any input that the
// normaliser leaves alone. A Tokenizer may be used from several goroutines at once.
package tokenizer
