package collective

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"trireme/tensor"
)

func TestHeaderEncoding(t *testing.T) {
	h := newHeader(KindReduceScatter, strings.Repeat("layer ", 20))
	h.Seq, h.Op, h.DType, h.Out, h.Flags, h.Count, h.Chunks, h.Group = 1<<40+7, Max, tensor.BF16, tensor.F32, 1, 1<<50, 99, 1234567
	b := h.Encode(nil)
	if len(b) != HeaderSize {
		t.Fatalf("%d bytes, want %d", len(b), HeaderSize)
	}
	got, err := DecodeHeader(b)
	if err != nil || got != h {
		t.Fatalf("%+v became %+v, %v", h, got, err)
	}
	for i := range b { // any flipped bit must be detected
		for bit := range 8 {
			b[i] ^= 1 << bit
			if got, err := DecodeHeader(b); err == nil && got.matches(&h) {
				t.Errorf("flipped bit %d of byte %d is not detected", bit, i)
			}
			b[i] ^= 1 << bit
		}
	}
}

func FuzzHeader(f *testing.F) {
	h := newHeader(KindBarrier, "tag")
	f.Add(h.Encode(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := DecodeHeader(b)
		if err != nil {
			return
		}
		_ = h.String()
		if !bytes.Equal(h.Encode(nil), b) {
			t.Errorf("%x became %x", b, h.Encode(nil))
		}
	})
}

func TestFailureEncoding(t *testing.T) {
	for _, kind := range failureKinds {
		f := &Failure{Kind: kind, Rank: 3, Lost: []int{7, 1}, Text: strings.Repeat("why ", 2000)}
		b := f.Encode()
		got, err := DecodeFailure(b)
		if err != nil || len(b) > maxFailure || got.Rank != 3 || !slices.Equal(got.Lost, f.Lost) || !errors.Is(got, kind) || !strings.HasPrefix(f.Text, got.Text) {
			t.Errorf("%v became %v, %v", kind, got, err)
		}
	}
	for _, b := range [][]byte{nil, {1, 2}, {99, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 2, 1, 0, 0, 0}} {
		if _, err := DecodeFailure(b); err == nil {
			t.Errorf("%v decodes as a failure", b)
		}
	}
}
