// Package asm generates the assembly of internal/kernel. Each folder is one generator;
// "go generate ./internal/kernel" runs them all.
package asm
