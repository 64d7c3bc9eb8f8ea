// Package safetensors reads and writes the file format in which Hugging Face models are
// published: an 8-byte little-endian header length, a JSON header that gives every tensor's
// type, shape and byte range, spaces up to a multiple of 8, then the row-major
// little-endian elements without holes (github.com/huggingface/safetensors).
//
// It moves ranges of elements, never whole models. A File checks its header against the
// size of the file before anything is read, and then reads any range of any tensor; Files
// is a model that may lie in several files under an index. A Layout is the other way
// round: declare all tensors and every byte has its place, so that any number of processes
// can write their ranges of one file in any order and the bytes come out the same.
//
// It is not a checkpoint: it knows no checksums, no commit, no ranks. Package checkpoint
// builds those on top of it.
//
// What it reads may come from a stranger. A file that lies is refused with one line that
// names the file and the lie; memory used for a header is bounded by the size of the file
// and by 100 MB.
package safetensors
