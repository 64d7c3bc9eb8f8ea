// Command bench compares trireme with PyTorch, transformers, llama.cpp, tokenizers, safetensors and dd on this machine. Runs alternate in pairs, so that a
// drifting machine speed affects both. It prints tables with medians, and medians of the ratio per pair.
//
//	go run ./bench step gemm collectives ranks mpi tokenize checkpoint generate
//	go run ./bench -pairs 3 -dtypes float32,bfloat16 -peer eager,compiled -json step.json -svg step.svg step
//	go run ./bench -from step.json -svg step.svg
//
// It builds trireme, and on first use installs PyTorch or tokenizers in virtual environments in the user's cache
// directory; -trireme and -python name others. Nothing else should run on the machine. See bench/README.md.
package main
