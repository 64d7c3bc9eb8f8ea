//go:build !linux && !darwin

package rendezvous

func pidNamespace() string { return "" }

func stateOf(int) (processState, int) { return unknown, 0 }
