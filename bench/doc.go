// Command bench compares trireme with PyTorch on this machine. Runs alternate in pairs, so that a
// drifting machine speed affects both. It prints medians, and medians of the ratio per pair.
//
//	go build -o trireme ./cmd/trireme
//	go run ./bench -peers DIR -pairs 5 step gemm collectives mpi ranks
//
// DIR has the PyTorch scripts train_torch.py, sgemm_torch.py and coll_torch.py. Each prints one JSON
// line; see bench/README.md. Nothing else should run on the machine.
package main
