package cudnn

import (
	"encoding/json"
	"math"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"testing"

	"trireme/tensor"
)

var hopper = Device{Major: 9}

// golden are the attentions of ../testdata/cudnn.
var golden = map[string]Attention{
	"causal":         attention(2, 12, 12, 64),
	"full":           with(attention(2, 12, 12, 64), func(a *Attention) { a.Causal = false }),
	"inference":      with(attention(2, 12, 12, 64), func(a *Attention) { a.Statistics = false }),
	"float16":        with(attention(2, 12, 12, 64), func(a *Attention) { a.DType = tensor.F16 }),
	"grouped":        attention(2, 32, 8, 128),
	"window":         with(attention(2, 32, 8, 128), func(a *Attention) { a.Window = 256 }),
	"packed":         packed(attention(4, 32, 8, 128)),
	"packed_window":  packed(with(attention(4, 12, 12, 64), func(a *Attention) { a.Window = 256 })),
	"packed_full":    packed(with(attention(4, 12, 12, 64), func(a *Attention) { a.Causal = false })),
	"padding":        with(attention(2, 12, 12, 64), func(a *Attention) { a.SeqLen, a.Causal = 0, false }),
	"padding_causal": with(attention(2, 32, 8, 128), func(a *Attention) { a.SeqLen = 0 }),
}

// attention is causal, over full sequences of 1024 rows.
func attention(sequences, heads, kvHeads, e int) Attention {
	return Attention{
		AttentionParams: tensor.AttentionParams{MaxSeqLen: 1024, SeqLen: 1024, Heads: heads, KVHeads: kvHeads, E: e, Scale: 1 / math.Sqrt(float64(e)), Causal: true},
		DType:           tensor.BF16, Rows: sequences * 1024, Sequences: sequences, Statistics: true,
	}
}

func with(a Attention, f func(*Attention)) Attention { f(&a); return a }

// packed has twice the sequences.
func packed(a Attention) Attention {
	a.SeqLen, a.Sequences = 0, 2*a.Sequences
	return a
}

var (
	customCall = regexp.MustCompile(`stablehlo\.custom_call @(\S+)\(.*?\) \{(api_version = 2 : i32), backend_config = "(.*?)", (operand_layouts = .*?)\} : (.*)`)
	escaped    = regexp.MustCompile(`\\[0-9A-F]{2}`)
)

// TestGolden compares calls with those that JAX lowers.
func TestGolden(t *testing.T) {
	for name, a := range golden {
		d := hopper
		if a.Sequences == 2 && a.SeqLen == 0 {
			d.Major = 8 // padded rather than packed
		}
		if ok, why := Supported(a, d); !ok {
			t.Errorf("%s: %s", name, why)
		}
		text, err := os.ReadFile("../testdata/cudnn/" + name + ".mlir")
		if err != nil {
			t.Fatal(err)
		}
		calls := customCall.FindAllStringSubmatch(string(text), -1)
		want := []Call{Forward(a, d), Backward(a, d)}
		if name == "inference" {
			want = want[:1]
		}
		if len(calls) != len(want) {
			t.Fatalf("%s has %d calls, want %d", name, len(calls), len(want))
		}
		for i, c := range calls {
			call := want[i]
			if call.Target != c[1] || call.Signature() != c[5] {
				t.Errorf("%s: %s of %s\nwant %s of %s", name, call.Target, call.Signature(), c[1], c[5])
			}
			if got, want := "operand_layouts = "+layouts(call.Operands)+", result_layouts = "+layouts(call.Results), c[4]; got != want {
				t.Errorf("%s: %s\nwant %s", name, got, want)
			}
			config := escaped.ReplaceAllStringFunc(c[3], func(s string) string {
				n, _ := strconv.ParseUint(s[1:], 16, 8)
				return string(rune(n))
			})
			if got, want := decode(t, call.Config), decode(t, config); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: configuration %v\nwant %v", name, got, want)
			}
		}
	}
}

func decode(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// TestShape checks that a call has room for all rows and segments, and keeps T small.
func TestShape(t *testing.T) {
	for _, c := range []struct {
		rows, sequences, longest int
		full                     bool
		major                    int
		want                     Shape
	}{
		{8192, 8, 1024, true, 9, Shape{Full, 8, 1024, 1}},
		{8192, 8, 1024, false, 9, Shape{Packed, 8, 1024, 2}},
		{8192, 8, 1024, false, 8, Shape{Padded, 8, 1024, 1}},
		{768, 1, 1024, false, 9, Shape{Padded, 1, 768, 1}},
		{8192, 20, 1024, false, 9, Shape{Packed, 8, 1024, 3}},
		{1000, 3, 600, false, 9, Shape{Packed, 1, 1000, 3}},
		{1000, 7, 150, false, 10, Shape{Packed, 5, 200, 2}},
	} {
		a := attention(c.sequences, 4, 4, 64)
		a.Rows, a.MaxSeqLen, a.SeqLen = c.rows, c.longest, 0
		if c.full {
			a.SeqLen = c.longest
		}
		s := a.Shape(Device{Major: c.major})
		if s != c.want {
			t.Errorf("%d rows in %d sequences of up to %d: %+v, want %+v", c.rows, c.sequences, c.longest, s, c.want)
		}
		if s.Form == Packed && (s.B*s.T != c.rows || s.B*s.M < c.sequences || s.T < min(c.rows, c.longest)) {
			t.Errorf("%+v has no room for %d rows in %d sequences of up to %d", s, c.rows, c.sequences, c.longest)
		}
	}
}

// TestSupported checks each reason.
func TestSupported(t *testing.T) {
	base := attention(4, 32, 8, 128)
	for why, c := range map[string]struct {
		Attention
		Device
	}{
		"cuDNN attention takes bfloat16 and float16, not float32":                                  {with(base, func(a *Attention) { a.DType = tensor.F32 }), hopper},
		"cuDNN attention needs compute capability 8.0, this is 7.5":                                {base, Device{Major: 7, Minor: 5}},
		"XLA needs cuDNN 9.0 or newer for attention":                                               {base, Device{9, 0, 8907}},
		"cuDNN refuses attention in version 9.10.1, because of bugs. try: 9.10.2 or newer":         {base, Device{9, 0, 91001}},
		"compute capability 10.3 needs cuDNN 9.11 for attention, this is 9.10.2":                   {base, Device{10, 3, 91002}},
		"32 query heads are not a multiple of 5 key and value heads":                               {with(base, func(a *Attention) { a.KVHeads = 5 }), hopper},
		"head size 68 is not a multiple of 8 up to 256":                                            {with(base, func(a *Attention) { a.E = 68 }), hopper},
		"head size 256 is not a multiple of 8 up to 128":                                           {with(base, func(a *Attention) { a.E = 256 }), Device{Major: 8}},
		"cuDNN's dropout is not a function of the row's key: a program has one seed for all steps": {with(base, func(a *Attention) { a.Dropout = 0.1 }), hopper},
		"cuDNN has no mask of documents within a sequence":                                         {with(base, func(a *Attention) { a.Docs = true }), hopper},
		"5000 rows are not 4 sequences of 1024":                                                    {with(base, func(a *Attention) { a.Rows = 5000 }), hopper},
		"cuDNN has no backward of one row":                                                         {with(base, func(a *Attention) { a.Rows, a.SeqLen = 4, 1 }), hopper},
		"cuDNN has a window for causal attention only":                                             {with(base, func(a *Attention) { a.Window, a.Causal = 9, false }), hopper},
		"a window needs cuDNN 9.2, this is 9.1.0":                                                  {with(base, func(a *Attention) { a.Window = 9 }), Device{9, 0, 90100}},
		"packed sequences with grouped heads need cuDNN 9.6, this is 9.5.0":                        {packed(base), Device{9, 0, 90500}},
		"4194304 rows of 4096 elements exceed 32-bit offsets":                                      {packed(with(base, func(a *Attention) { a.Rows = 1 << 22 })), hopper},
		"deterministic backward needs cuDNN 9.18 on compute capability 10.0, this is 9.11.0":       {with(base, func(a *Attention) { a.Deterministic = true }), Device{10, 0, 91100}},
		"cuDNN has no deterministic backward of packed sequences on compute capability 12.0":       {packed(with(base, func(a *Attention) { a.Deterministic = true })), Device{12, 0, 91900}},
	} {
		if ok, got := Supported(c.Attention, c.Device); ok || got != why {
			t.Errorf("%v, %q, want %q", ok, got, why)
		}
	}
	for _, d := range []Device{{8, 0, 90100}, {9, 0, 0}, {10, 0, 91900}, {12, 0, 0}} {
		if ok, why := Supported(base, d); !ok {
			t.Errorf("%+v: %s", d, why)
		}
	}
}
