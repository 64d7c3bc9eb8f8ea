// Package bench measures matrix products (GEMM), attention (Attention), collectives (Collectives) and training steps (Step).
// Reports have the JSON keys of the PyTorch scripts they are compared with. The package starts no
// process and prints nothing: a command calls the function on every rank and writes rank 0's report.
package bench
