package store

import "time"

// Clock is the time that leases are measured with. Simulations replace the real one.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f after d, in a goroutine of its own or, in a simulation, from the call that advances the
	// time. stop prevents a call that has not started.
	AfterFunc(d time.Duration, f func()) (stop func())
}

// RealClock is the machine's clock.
var RealClock Clock = realClock{}

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) AfterFunc(d time.Duration, f func()) func() {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}
