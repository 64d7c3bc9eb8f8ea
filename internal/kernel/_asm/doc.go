// Package asm generates the assembly of internal/kernel and internal/gcm. Each folder is one generator;
// "go generate ./internal/kernel ./internal/gcm" runs them all.
package asm
