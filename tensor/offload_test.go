package tensor

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOffloaded checks reads and writes through views, and the Offloaded category.
func TestOffloaded(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "offloaded"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var m Meter
	m.Add(Params, 3)
	x := Of(NewOffloaded(&m, f, 4*10), F32, 0, 10)
	if err := Store(x.Flat(2, 10), AsBytes([]float32{2, 3, 4, 5, 6, 7, 8, 9})); err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 3)
	if err := Fetch(AsBytes(got), x.Flat(4, 9).Flat(1, 4)); err != nil || got[0] != 5 || got[2] != 7 {
		t.Errorf("elements 5 to 7 are %v, %v", got, err)
	}
	if err := Fetch(AsBytes(got), x); err == nil {
		t.Error("Fetch of 10 elements into 3 succeeds")
	}
	if use := m.Read(); use.Live[Offloaded] != 40 || use.LiveTotal != 3 || use.PeakTotal != 3 {
		t.Errorf("counted as %+v", use)
	}
	if x.Release(); m.Read().Live[Offloaded] != 0 {
		t.Error("released bytes are counted")
	}
	near := Of(NewBuffer(make([]byte, 8), 8, Params, nil), F32, 0, 2)
	if err := Fetch(make([]byte, 8), near); err == nil {
		t.Error("Fetch of a tensor in memory succeeds")
	}
}
