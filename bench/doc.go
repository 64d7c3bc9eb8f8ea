// Command bench compares trireme with PyTorch on this machine: the two in turn, pair by pair,
// so that a comparison holds when the machine's speed drifts. It prints a table of medians, and
// medians of the pairwise ratios.
//
//	go build -o trireme ./cmd/trireme
//	go run ./bench -peers DIR -pairs 5 step gemm collectives ranks
//
// DIR holds the scripts of the other side (train_torch.py, sgemm_torch.py, coll_torch.py), which
// print one JSON line each; bench/README.md says what they do. Nothing else should run on the
// machine meanwhile.
package main
