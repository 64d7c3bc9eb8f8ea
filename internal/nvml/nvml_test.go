package nvml_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trireme/internal/nvml"
	"trireme/internal/nvml/nvmltest"
)

func open(t *testing.T) (*nvml.Library, []nvml.Card) {
	t.Helper()
	l, err := nvml.Open(nvmltest.Library(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(l.Close(), l.Close()); err != nil {
			t.Error(err)
		}
	})
	cards, err := l.Cards()
	if err != nil {
		t.Fatal(err)
	}
	return l, cards
}

func TestCards(t *testing.T) {
	l, cards := open(t)
	if version, cuda, err := l.Driver(); version != "580.65.06" || cuda.String() != "13.0" || err != nil {
		t.Errorf("driver %s, CUDA %v, %v", version, cuda, err)
	}
	if len(cards) != 2 {
		t.Fatalf("%d cards", len(cards))
	}
	c := cards[1]
	if c.Index != 1 || c.Name != "NVIDIA GeForce RTX 4090" || c.UUID != "GPU-aabb0001-1111-2222-3333-444444444444" || c.BusID != "00000000:1C:00.0" ||
		c.Memory != 24<<30 || c.Major != 8 || c.Minor != 9 {
		t.Errorf("%+v", c)
	}
}

func TestRead(t *testing.T) {
	l, cards := open(t)
	r, err := l.Read(cards[1])
	if err != nil {
		t.Fatal(err)
	}
	if r.Utilization != 0.91 || r.MemoryUsed != 5<<30 || r.MemoryTotal != 24<<30 || r.Power != 612.5 || r.PowerLimit != 700 || r.Temperature != 62 ||
		r.SMClock != 1979 || r.MemoryClock != 2619 || !slices.Equal(r.Throttled, []string{"power cap", "hardware thermal"}) {
		t.Errorf("%+v", r)
	}
	if r, err := l.Read(cards[0]); err != nil || r.Throttled != nil {
		t.Errorf("an idle card: %+v, %v", r, err)
	}
	t.Setenv("FAKE_NVML_BARE", "1")
	r, err = l.Read(cards[0])
	if err != nil || r.MemoryTotal != 140<<30 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, v := range []float64{r.Utilization, r.Power, r.PowerLimit, r.Temperature, r.SMClock, r.MemoryClock} {
		if !math.IsNaN(v) {
			t.Errorf("a value that the card does not report is %v", v)
		}
	}
}

func TestLost(t *testing.T) {
	l, cards := open(t)
	t.Setenv("FAKE_NVML_LOST", "1")
	_, err := l.Read(cards[1])
	var call *nvml.Error
	if !errors.Is(err, nvml.ErrLost) || !errors.As(err, &call) || !strings.Contains(err.Error(), "GPU 1 (NVIDIA GeForce RTX 4090, 00000000:1C:00.0)") {
		t.Errorf("a lost card: %v", err)
	}
	if others, err := l.Cards(); !errors.Is(err, nvml.ErrLost) || len(others) != 1 || others[0] != cards[0] {
		t.Errorf("cards with a lost one: %v, %v", others, err)
	}
	if _, err := l.Read(cards[0]); err != nil {
		t.Errorf("the other card: %v", err)
	}
}

func TestXID(t *testing.T) {
	l, cards := open(t)
	e := l.WatchXIDs(cards)
	if e == nil {
		t.Fatal("no events")
	}
	defer e.Close()
	if err := e.Next(); err != nil {
		t.Errorf("before an error: %v", err)
	}
	t.Setenv("FAKE_NVML_XID", "79")
	err := e.Next()
	var xid *nvml.XIDError
	if !errors.As(err, &xid) || xid.XID != 79 || xid.Card.Index != 1 || !strings.HasSuffix(err.Error(), "XID 79: the GPU has fallen off the bus") {
		t.Errorf("XID 79: %v", err)
	}
	if err := e.Next(); err != nil {
		t.Errorf("after the error: %v", err)
	}
	t.Setenv("FAKE_NVML_BARE", "1")
	if l.WatchXIDs(cards) != nil {
		t.Error("cards without events have events")
	}
}

func TestNoDriver(t *testing.T) {
	if _, err := nvml.Open(filepath.Join(t.TempDir(), nvml.File)); !errors.Is(err, nvml.ErrNoDriver) {
		t.Errorf("without a library: %v", err)
	}
	file := nvmltest.Library(t)
	t.Setenv("FAKE_NVML_INIT", "9")
	if _, err := nvml.Open(file); !errors.Is(err, nvml.ErrNoDriver) {
		t.Errorf("without a running driver: %v", err)
	}
	t.Setenv("FAKE_NVML_INIT", "18")
	if _, err := nvml.Open(file); errors.Is(err, nvml.ErrNoDriver) || err == nil || !strings.Contains(err.Error(), "different versions") {
		t.Errorf("a driver of another version: %v", err)
	}
	old := filepath.Join(t.TempDir(), "old.so")
	nvmltest.Compile(t, old, "int nvmlInit_v2(void) { return 0; }")
	if _, err := nvml.Open(old); err == nil || !strings.Contains(err.Error(), "no function nvmlShutdown") {
		t.Errorf("an old library: %v", err)
	}
	text := filepath.Join(t.TempDir(), "text.so")
	if err := os.WriteFile(text, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := nvml.Open(text); !errors.Is(err, nvml.ErrNoDriver) {
		t.Errorf("a file that is no library: %v", err)
	}
}

func TestVisible(t *testing.T) {
	var cards []nvml.Card
	for i, id := range []string{"GPU-aaaa-1", "GPU-aabb-2", "GPU-cccc-3"} {
		cards = append(cards, nvml.Card{Index: i, UUID: id})
	}
	for value, want := range map[string][]int{
		"0,1,2": {0, 1, 2}, "2,0": {2, 0}, "": nil, "-1": nil, "1,-1,2": {1}, "3": nil, "0,x,1": {0}, " 1 , 0 ": {1, 0},
		"GPU-cccc-3": {2}, "gpu-aab,0": {1, 0}, "GPU-aa": nil, "MIG-aaaa": nil, "NoDevFiles": nil,
	} {
		var got []int
		for _, c := range nvml.Visible(cards, value, true) {
			got = append(got, c.Index)
		}
		if !slices.Equal(got, want) {
			t.Errorf("CUDA_VISIBLE_DEVICES=%q shows %v, want %v", value, got, want)
		}
	}
	if len(nvml.Visible(cards, "", false)) != 3 {
		t.Error("without the variable not all cards are visible")
	}
}

func FuzzVisible(f *testing.F) {
	cards := []nvml.Card{{UUID: "GPU-1"}, {Index: 1, UUID: "GPU-2"}}
	for _, s := range []string{"0,1", "GPU-1", "", ",", "99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) { nvml.Visible(cards, value, true) })
}
