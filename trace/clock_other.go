//go:build !linux

package trace

func systemClock() int64 { return start.UnixNano() }
