//go:build !linux && !darwin

package rendezvous

func namespaces() string { return "" }

func stateOf(int) (processState, int, int64) { return unknown, 0, 0 }
