// Package tokenizer turns text into token ids and back, as the Hugging Face tokenizer of a
// model does, and learns byte-level BPE vocabularies. It knows nothing of rows, batches or
// chat messages; a chat template it hands on as text.
//
// A Tokenizer is a chain: added tokens such as <|endoftext|> are cut out of the text, the
// rest is normalised, split into pieces (words, mostly), each piece is divided by the model
// into tokens, and a template may put tokens around the whole. Load reads the chain from
// tokenizer.json, from sentencepiece's tokenizer.model, from vocab.json with merges.txt or
// from BERT's vocab.txt; a part that this package does not know is an error that names it,
// never a guess. Train learns one from text; Save writes a directory that Load and Hugging
// Face's libraries read.
//
//	tok, err := tokenizer.Load("model/")
//	ids := tok.Encode("Hello world", tokenizer.Options{Template: true})
//	text := tok.Decode(ids)
//
// Four models are here: byteBPE (GPT-2, GPT-NeoX, Llama 3, Qwen), runeBPE (Llama 2, Mistral),
// unigram (T5, XLM-R) and wordPiece (BERT), with wordLevel besides. The patterns of the
// commonest families are code, others run on a regular-expression engine with look-ahead.
// What pieces become is remembered, so that ordinary text, which repeats its words, is mostly
// looked up.
//
// Decode gives the text of ids; Stream gives it id by id, as a model makes them. Bytes that
// are not UTF-8 are kept as they are by models that have tokens for bytes, so Decode undoes
// Encode for any input that the normalizer leaves alone. A Tokenizer may be used from
// several goroutines at once.
package tokenizer
