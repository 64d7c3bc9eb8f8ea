// Package safetensors reads and writes Hugging Face's safetensors format: an 8-byte little-endian
// header length, a JSON header with every tensor's type, shape and byte range, padding with spaces
// to a multiple of 8, then the row-major little-endian elements without gaps
// (github.com/huggingface/safetensors).
//
// It reads and writes ranges of elements, never whole models. A File checks its header against the
// file size, then reads any range of any tensor. Files is a model in one file or several with an
// index. A Layout computes all offsets from the declared tensors, so that any number of processes
// can write their ranges of one file in any order, with the same resulting bytes.
//
// The format has no checksums. A layout of NewChecksumLayout has those of blocks of each tensor and of the header, in an entry
// of the metadata that other programs ignore; Sums computes them from the ranges of several processes. A File with them compares
// each block that it reads.
//
// Commits and ranks are package checkpoint's.
//
// Input is untrusted. Invalid files are rejected with one line that names the file and the problem.
// Memory for a header is bounded by the file size and by 100 MB.
package safetensors
