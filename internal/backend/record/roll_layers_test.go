package record

import (
	"testing"
	"time"

	"trireme/internal/backend/naive"
	"trireme/tensor"
)

// layers records a step of layers with weights in one buffer, which are fetched a layer ahead: an input
// and a residual are kept for backward, and each layer has further pairs of operations.
func layers(t testing.TB, count, pairs, micros int) *Recording {
	b := New(naive.New())
	const n = 4
	weights, grads := b.New(tensor.Params, tensor.F32, count*n), b.New(tensor.Grads, tensor.F32, count*n)
	b.Fill(weights, 1)
	b.Fill(grads, 0)
	fresh := func() *tensor.Tensor { return b.New(tensor.Activations, tensor.F32, n) }
	fetch := func(layer int) *tensor.Tensor {
		w := b.New(tensor.Gathered, tensor.F32, n)
		b.Copy(w, weights.Flat(layer*n, (layer+1)*n))
		return w
	}
	rec, err := b.Record(true, func() error {
		for range micros {
			x := fresh()
			b.Fill(x, 1)
			var inputs []*tensor.Tensor
			w := fetch(0)
			for l := range count {
				next := w
				if l+1 < count {
					next = fetch(l + 1)
				}
				h := fresh()
				b.Add(h, x, w)
				for k := range pairs {
					y := fresh()
					b.GELU(y, h, true)
					b.AddScaled(h, y, float64(1+k))
					y.Release()
				}
				noise, out := fresh(), fresh()
				b.Normal(noise, tensor.RandKey{Seed: 1, Stream: uint64(100 + l)}, 0, 0.5)
				b.Add(h, h, noise)
				b.Add(out, x, h)
				noise.Release()
				h.Release()
				inputs = append(inputs, x)
				if x = out; next != w {
					w.Release()
				}
				w = next
			}
			dx := fresh()
			b.Copy(dx, x)
			x.Release()
			w.Release()
			for l := count - 1; l >= 0; l-- {
				d := fresh()
				b.Add(d, dx, inputs[l])
				for k := range pairs {
					y := fresh()
					b.GELUBackward(y, dx, d, true)
					b.AddScaled(d, y, float64(1+k))
					y.Release()
				}
				b.AddScaled(grads.Flat(l*n, (l+1)*n), d, 1)
				dx.Release()
				inputs[l].Release()
				dx = d
			}
			dx.Release()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

const wantRolled = `%0 stack of 4 activations 64
%1 temporary gathered 16
%2 constant parameters 64
%3 temporary gathered 16
%4 temporary activations 16
%5 temporary activations 16
%6 temporary activations 16
%7 temporary activations 16
%8 temporary activations 16
%9 state gradients 64
Fill dst:%0 float32[4] <- v=1
Copy dst:%1 float32[4] <- src:%2 float32[4]
loop 3 {
$0 temp float32[4] write
$1 slice %2+4 step 4 float32[4] read
$2 temp float32[4] read write
$3 slice %0 step 4 float32[4] read
$4 carry float32[4] from %1 next $0 to %3 read
$5 temp float32[4] read write
$6 temp float32[4] read write
$7 slice %0+4 step 4 float32[4] write
stream 100 101 102
Copy dst:$0 float32[4] <- src:$1 float32[4]
Add dst:$2 float32[4] <- a:$3 float32[4] b:$4 float32[4]
GELU dst:$5 float32[4] <- x:$2 float32[4] tanh=true
AddScaled dst:$2 float32[4] <- dst:$2 float32[4] src:$5 float32[4] s=1
Normal dst:$6 float32[4] <- key=tensor.RandKey{Seed:1 Stream:100} first=0 std=0.5
Add dst:$2 float32[4] <- a:$2 float32[4] b:$6 float32[4]
Add dst:$7 float32[4] <- a:$3 float32[4] b:$2 float32[4]
}
Add dst:%4 float32[4] <- a:%0+12 float32[4] b:%3 float32[4]
GELU dst:%5 float32[4] <- x:%4 float32[4] tanh=true
AddScaled dst:%4 float32[4] <- dst:%4 float32[4] src:%5 float32[4] s=1
Normal dst:%6 float32[4] <- key=tensor.RandKey{Seed:1 Stream:103} first=0 std=0.5
Add dst:%4 float32[4] <- a:%4 float32[4] b:%6 float32[4]
Add dst:%7 float32[4] <- a:%0+12 float32[4] b:%4 float32[4]
Copy dst:%8 float32[4] <- src:%7 float32[4]
loop 4 {
$0 temp float32[4] read write
$1 carry float32[4] from %8 next $0 read
$2 slice %0+12 step -4 float32[4] read
$3 temp float32[4] read write
$4 slice %9+12 step -4 float32[4] read write
Add dst:$0 float32[4] <- a:$1 float32[4] b:$2 float32[4]
GELUBackward dx:$3 float32[4] <- dy:$1 float32[4] x:$0 float32[4] tanh=true
AddScaled dst:$0 float32[4] <- dst:$0 float32[4] src:$3 float32[4] s=1
AddScaled dst:$4 float32[4] <- dst:$4 float32[4] src:$0 float32[4] s=1
}
`

// TestRolledText checks a rolled program's text.
func TestRolledText(t *testing.T) {
	got := layers(t, 4, 1, 1).Roll().String()
	if diff := Diff(wantRolled, got); diff != "" {
		t.Errorf("%s\n%s", diff, got)
	}
}

// TestRollLarge checks that a large program rolls fast, and its memory.
func TestRollLarge(t *testing.T) {
	rec := layers(t, 80, 28, 8)
	start := time.Now()
	r := rec.Roll()
	t.Logf("%d operations rolled to %d nodes in %v", len(rec.Ops), len(r.Nodes), time.Since(start))
	if small := layers(t, 20, 28, 8).Roll(); len(r.Nodes) != len(small.Nodes) {
		t.Errorf("%d nodes, and %d with a quarter of the layers", len(r.Nodes), len(small.Nodes))
	}
	if err := check(r); err != nil {
		t.Error(err)
	}
	if got, want := r.Peak(), rec.Peak(); got > want+16 {
		t.Errorf("rolled it needs %d bytes, otherwise %d", got, want)
	}
}
