package record_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"trireme/internal/backend/naive"
	"trireme/internal/backend/record"
	"trireme/tensor"
)

// made is a recording backend with a few tensors.
type made struct {
	*record.Backend
	table, state, out *tensor.Tensor
	result            func() []byte
}

func newMade() *made {
	b := &made{Backend: record.New(naive.New())}
	for _, t := range []**tensor.Tensor{&b.table, &b.state, &b.out} {
		*t = b.New(tensor.Workspace, tensor.F32, 2, 4)
		b.Fill(*t, 3)
	}
	b.Upload(b.table, tensor.AsBytes([]float32{1, 2, 3, 4, 5, 6, 7, 8}))
	return b
}

// step has an input, views, a temporary, a constant, state, scratch and a result.
func (b *made) step(lr float32) error {
	in := b.New(tensor.Workspace, tensor.F32, 1)
	defer in.Release()
	b.Upload(in, tensor.AsBytes([]float32{lr}))
	sum := b.New(tensor.Activations, tensor.F32, 2, 4)
	defer sum.Release()
	b.Copy(sum.Cols(0, 2), b.table.Cols(2, 4))
	b.Copy(sum.Cols(2, 4), b.table.Cols(0, 2))
	b.Barrier(sum)
	b.AddScaled(b.state, sum, 0.5)
	b.Add(b.out.Flat(0, 1), b.state.Flat(7, 8), in)
	b.Copy(b.out.Flat(1, 8), b.state.Flat(1, 8))
	b.result = tensor.DownloadAsync(b, b.out)
	b.Fill(b.out.Flat(0, 4), 1)
	return nil
}

const wantText = `%0 temporary workspace 4
%1 temporary activations 32
%2 constant workspace 32
%3 state workspace 32
%4 scratch workspace 32
Upload dst:%0.1 float32[1] <-
Copy dst:%1.1 float32[2 2]/4 <- src:%2.0+2 float32[2 2]/4
Copy dst:%1.2+2 float32[2 2]/4 <- src:%2.0 float32[2 2]/4
Barrier ts:%1.3 float32[2 4] <- ts:%1.2 float32[2 4]
AddScaled dst:%3.1 float32[2 4] <- dst:%3.0 float32[2 4] src:%1.3 float32[2 4] s=0.5
Add dst:%4.1 float32[1] <- a:%3.1+7 float32[1] b:%0.1 float32[1]
Copy dst:%4.2+1 float32[7] <- src:%3.1+1 float32[7]
DownloadAsync <- src:%4.2 float32[2 4]
Fill dst:%4.3 float32[4] <- v=1
`

// TestProgram checks a program's text, that recording runs nothing, and that a program runs on
// another step's inputs with the right state, results and undefined scratch.
func TestProgram(t *testing.T) {
	b := newMade()
	record1, err := b.Record(true, func() error { return b.step(10) })
	if err != nil {
		t.Fatal(err)
	}
	record2, err := b.Record(true, func() error { return b.step(100) })
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*record.Recording{record1, record2} {
		if diff := record.Diff(wantText, r.String()); diff != "" {
			t.Error(diff)
		}
	}
	read := func(x *tensor.Tensor) []float32 {
		out := make([]float32, x.Elems())
		b.Download(tensor.AsBytes(out), x)
		return out
	}
	if got := read(b.state); !slices.Equal(got, []float32{3, 3, 3, 3, 3, 3, 3, 3}) {
		t.Errorf("recording changed the state to %v", got)
	}
	if err := b.Replay(context.Background(), record1.Program, record2); err != nil {
		t.Fatal(err)
	}
	if got, want := read(b.state), []float32{4.5, 5, 3.5, 4, 6.5, 7, 5.5, 6}; !slices.Equal(got, want) {
		t.Errorf("state %v, want %v", got, want)
	}
	if got, want := tensor.FromBytes[float32](b.result()), []float32{106, 5, 3.5, 4, 6.5, 7, 5.5, 6}; !slices.Equal(got, want) {
		t.Errorf("result %v, want %v", got, want)
	}
	if got := read(b.out); got[0] == got[0] {
		t.Errorf("scratch is %v after the step", got)
	}
}

// TestOutputs checks the kinds of buffers that a program writes first and a later program may read.
func TestOutputs(t *testing.T) {
	b := newMade()
	step := func() error {
		b.Fill(b.out.Flat(0, 4), 1)
		b.Fill(b.out.Flat(4, 8), 2)
		b.Fill(b.state.Flat(2, 8), 5)
		return nil
	}
	for last, want := range map[bool][]record.Kind{false: {record.Output, record.State}, true: {record.Scratch, record.Scratch}} {
		rec, err := b.Record(last, step)
		if err != nil {
			t.Fatal(err)
		}
		if got := []record.Kind{rec.Buffers[0].Kind, rec.Buffers[1].Kind}; !slices.Equal(got, want) {
			t.Errorf("last %t: %v, want %v", last, got, want)
		}
		if err := b.Replay(context.Background(), rec.Program, rec); err != nil {
			t.Fatal(err)
		}
		state, out := make([]float32, 8), make([]float32, 8)
		b.Download(tensor.AsBytes(state), b.state)
		b.Download(tensor.AsBytes(out), b.out)
		if kept := out[0] == 1 && out[7] == 2 && state[1] == 3 && state[2] == 5; kept == last {
			t.Errorf("last %t: contents %v %v", last, out, state)
		}
		b.Fill(b.state, 3)
	}
}

// TestDiff checks the first differing line.
func TestDiff(t *testing.T) {
	if got := record.Diff("a\nb\n", "a\nc\n"); got != "line 2:\n- b\n+ c" {
		t.Error(got)
	}
	if got := record.Diff("a\n", "a\nb\n"); !strings.HasPrefix(got, "line 2:") {
		t.Error(got)
	}
	if got := record.Diff("a\n", "a\n"); got != "" {
		t.Error(got)
	}
}

// TestUnrecordable checks that unrecordable operations fail by name.
func TestUnrecordable(t *testing.T) {
	for op, step := range map[string]func(b *made) error{
		"Download": func(b *made) error { b.Download(make([]byte, 32), b.state); return nil },
		"Sync":     func(b *made) error { b.Sync(); return nil },
		"Release":  func(b *made) error { b.state.Release(); return nil },
		"New":      func(b *made) error { b.New(tensor.Activations, tensor.F32, 3); return nil },
		"Add": func(b *made) error {
			x := b.New(tensor.Activations, tensor.F32, 2, 4)
			b.Add(b.state, x, x)
			x.Release()
			return nil
		},
	} {
		b := newMade()
		_, err := b.Record(true, func() error { return step(b) })
		var refused *record.Error
		if !errors.As(err, &refused) || refused.Op != op || !strings.HasPrefix(err.Error(), "record: "+op+" within a step: ") {
			t.Errorf("%s: %v", op, err)
		}
		if _, err := b.Record(true, func() error { return b.step(1) }); err != nil {
			t.Errorf("after %s: %v", op, err)
		}
	}
}

// TestHostAccess checks that host memory is inaccessible, within a step or outside.
func TestHostAccess(t *testing.T) {
	defer func() {
		if p := recover(); p == nil || !strings.Contains(p.(string), "not in host memory") {
			t.Errorf("recovered %v", p)
		}
	}()
	tensor.HostBytes(newMade().state)
}
