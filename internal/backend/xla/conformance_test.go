package xla_test

import (
	"os"
	"testing"

	"trireme/device"
	"trireme/internal/backend/backendtest"
	"trireme/internal/backend/xla"
	"trireme/internal/pjrt"
	"trireme/internal/pjrt/pjrttest"
)

// open returns a backend per rank of a job of n ranks on the CPU plug-in.
func open(t *testing.T, n int) []*xla.Backend {
	t.Helper()
	plugin, err := pjrt.Load(pjrttest.CPU(t))
	if err != nil {
		t.Fatal(err)
	}
	client, err := plugin.NewClient([]pjrt.Option{{Name: "cpu_device_count", Value: int64(n)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int
	for _, d := range client.Devices() {
		ids = append(ids, d.ID())
	}
	c := xla.NewClient(client, ids, nil)
	t.Cleanup(func() {
		c.Close()
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	bs := make([]*xla.Backend, n)
	for i, d := range client.Devices() {
		host, err := device.Open("cpu", device.Options{Threads: 1, Reserve: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		bs[i] = xla.New(c, d, host)
		t.Cleanup(func() {
			if err := bs[i].Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return bs
}

// programs are the suite's options for a backend.
func programs(t *testing.T, b *xla.Backend) backendtest.Options {
	b.Alone = func(f func() error) error { return b.Compile(false, f) }
	return backendtest.Options{Contracts: true, Few: os.Getenv("XLA_CONFORMANCE") != "full", Program: func(operations func()) error {
		return b.Compile(false, func() error { operations(); return nil })
	}}
}

// Every operation conforms to the specification. XLA_CONFORMANCE=full tests all sizes.
func TestConformance(t *testing.T) {
	oneGoroutine(t)
	b := open(t, 1)[0]
	var suite backendtest.Suite
	suite.Run(t, b, programs(t, b))
}

// oneGoroutine skips a test with -short, for the race detector: the ranks of TestXLAStep in package train share a client.
func oneGoroutine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("short: one goroutine")
	}
}
