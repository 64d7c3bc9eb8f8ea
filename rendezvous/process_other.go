//go:build !linux && !darwin

package rendezvous

func namespaces() string { return "" }

func stateOf(int) (processState, int) { return unknown, 0 }
