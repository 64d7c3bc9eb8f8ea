package device

import (
	"strings"
	"testing"

	"trireme/tensor"
)

func TestOpen(t *testing.T) {
	for _, name := range []string{"cpu", "meta"} {
		d, err := Open(name, Options{Threads: 2, Reserve: 1 << 24})
		if err != nil {
			t.Fatal(err)
		}
		if d.Name() != name {
			t.Errorf("opened %s for %s", d.Name(), name)
		}
		x := d.New(tensor.Activations, tensor.F32, 3, 5)
		d.MatMul(d.New(tensor.Activations, tensor.F32, 3, 3), x, x, tensor.MatMulOp{TransB: true})
		if got := d.Meter().Read().Live[tensor.Activations]; got != 4*(15+9) {
			t.Errorf("%s: %d live bytes", name, got)
		}
		if err := d.Close(); err != nil {
			t.Errorf("close %s: %v", name, err)
		}
	}
	if _, err := Open("abacus", Options{}); err == nil || !strings.Contains(err.Error(), `"abacus"`) {
		t.Errorf("unknown name: %v", err)
	}
}

// A failed Open returns a nil interface, not a nil pointer in one.
func TestOpenFails(t *testing.T) {
	for _, o := range []struct {
		name string
		opts Options
	}{{"none", Options{}}, {"cpu", Options{Shared: nil, Threads: -1, Reserve: -1}}} {
		d, err := Open(o.name, o.opts)
		if err != nil && d != nil {
			t.Errorf("%s: %v with %v", o.name, d, err)
		}
		if err == nil {
			d.Close()
		}
	}
}
