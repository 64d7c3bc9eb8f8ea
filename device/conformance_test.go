package device

import (
	"os"
	"testing"

	"trireme/internal/backend/backendtest"
)

// Environment variables that choose the device of TestConformance, as those of package train's reference runs.
const (
	deviceVar = "TRAIN_TEST_DEVICE" // cuda, xla or tpu
	pluginVar = "TRAIN_TEST_PLUGIN" // plug-in file
)

// Every operation of a device of this machine conforms to the specification.
func TestConformance(t *testing.T) {
	name := Name(os.Getenv(deviceVar))
	if name == "" {
		t.Skipf("%s names no device; package xla tests the CPU plug-in", deviceVar)
	}
	c := DefaultConfig()
	c.Name, c.Plugin, c.Preallocate, c.Threads = name, os.Getenv(pluginVar), false, 1
	opened, err := c.Open(Process{Ranks: 1}, nil, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := opened.(*accelerator)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	b.Alone = func(f func() error) error { return b.Compile(false, f) }
	var suite backendtest.Suite
	suite.Run(t, b, backendtest.Options{Contracts: true, Few: true, Program: func(operations func()) error {
		return b.Compile(false, func() error { operations(); return nil })
	}})
}
