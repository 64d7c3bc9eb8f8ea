// Package gguf writes and reads GGUF files, the format of llama.cpp and programs built on it such as ollama
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, version 3).
//
// Convert writes the file of a Hugging Face model directory: metadata of the network (metadata.go), the tokenizer with
// its chat template (vocabulary.go), and the tensors under llama.cpp's names and in its order of rows (names.go), as
// F32, F16, BF16 or Q8_0 (quantize.go). Tensors are read and written in chunks, so the model is never in memory.
//
// Open reads a file of any author: every length is checked against the file's size before memory is allocated. Nothing
// here runs a model.
package gguf
