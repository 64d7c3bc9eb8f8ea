// Package tokenizer converts between text and token ids like the Hugging Face tokenizer of a model,
// and trains byte-level BPE vocabularies. It does not know rows, batches or chat messages; it
// returns a chat template as text.
//
// A Tokenizer is a pipeline: added tokens such as <|endoftext|> are matched, the rest is
// normalized and split into pieces (mostly words), the model splits each piece into tokens, and a
// template may add special tokens. Load reads the pipeline from tokenizer.json, sentencepiece's
// tokenizer.model, vocab.json with merges.txt, or BERT's vocab.txt. An unsupported
// component is an error that names it. Train trains a vocabulary; Save writes a directory that Load and
// Hugging Face's libraries read.
//
//	tok, err := tokenizer.Load("model/")
//	ids := tok.Encode("Hello world", tokenizer.Options{AddSpecialTokens: true})
//	text := tok.Decode(ids)
//
// The models are byteBPE (GPT-2, GPT-NeoX, Llama 3, Qwen), runeBPE (Llama 2, Mistral), unigram (T5,
// XLM-R), wordPiece (BERT) and wordLevel. The split patterns of the commonest families are Go code;
// others run on a regular-expression engine with look-ahead. Tokens of recent pieces are cached.
//
// Decode returns the text of ids; DecodeStream returns it incrementally, for generation. Models with byte
// tokens preserve invalid UTF-8, so Decode inverts Encode for any input that the normalizer does
// not change. A Tokenizer may be used from several goroutines.
package tokenizer
