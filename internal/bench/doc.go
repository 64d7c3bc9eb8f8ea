// Package bench measures this machine with the product's own code: a matrix product (GEMM),
// the collectives of a world of ranks (Collectives), and whole training steps (Step). Each
// returns a report whose JSON keys are those of the comparison's other side, so that the
// figures can be laid next to each other. It starts no process and prints nothing: a command
// calls the function on every rank and writes what rank 0 returns.
package bench
