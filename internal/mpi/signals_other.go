//go:build !linux

package mpi

type handlers struct{}

func signalHandlers() *handlers { return &handlers{} }

func (*handlers) restore() {}
