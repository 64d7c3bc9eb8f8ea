package pickle

import (
	"errors"
	"math/big"
	"reflect"
	"strings"
	"testing"
)

func TestDecode(t *testing.T) {
	list := &List{Items: []any{int64(1), nil}}
	dict := &Dict{}
	dict.Set("a", int64(2))
	for _, c := range []struct {
		in   string
		want any
	}{
		{"\x80\x02K\x01.", int64(1)},
		{"\x80\x02J\xff\xff\xff\xff.", int64(-1)},
		{"\x80\x02M\x00\x01.", int64(256)},
		{"\x80\x02\x8a\x00.", int64(0)},
		{"\x80\x02\x8a\x01\x80.", int64(-128)},
		{"\x80\x02\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80.", int64(-1 << 63)},
		{"\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.", new(big.Int).Lsh(big.NewInt(1), 64)},
		{"\x80\x02G\x3f\xf8\x00\x00\x00\x00\x00\x00.", 1.5},
		{"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x02hi\x94.", "hi"},
		{"\x80\x03C\x02\x00\xff.", []byte{0, 255}},
		{"\x80\x02](K\x01Ne.", list},
		{"\x80\x02]K\x01aNa.", list},
		{"\x80\x02}X\x01\x00\x00\x00aK\x02s.", dict},
		{"\x80\x02}X\x01\x00\x00\x00aK\x01sX\x01\x00\x00\x00aK\x02s.", dict},
		{"\x80\x02\x88\x89\x86.", Tuple{true, false}},
		{"\x80\x02(K\x01K\x02K\x03t.", Tuple{int64(1), int64(2), int64(3)}},
		{"\x80\x02K\x05q\x00h\x00\x86.", Tuple{int64(5), int64(5)}},
		{"\x80\x04\x8f(K\x01\x90.", &Set{&List{[]any{int64(1)}}}},
		{"\x80\x02c__main__\nConfig\n)\x81}X\x01\x00\x00\x00aK\x02sb.", &Object{Class: Global{"__main__", "Config"}, Args: Tuple{}, State: dict}},
		{"\x80\x04\x8c\x01a\x8c\x01b\x93.", Global{"a", "b"}},
	} {
		got, n, err := Decode([]byte(c.in), Config{})
		if err != nil || n != len(c.in) {
			t.Errorf("%q: %d of %d bytes, %v", c.in, n, len(c.in), err)
			continue
		}
		if !reflect.DeepEqual(plain(got), plain(c.want)) {
			t.Errorf("%q is %#v, want %#v", c.in, got, c.want)
		}
	}
}

// plain replaces a Dict by its keys and values, without its index.
func plain(v any) any {
	switch v := v.(type) {
	case *Dict:
		return []any{v.Keys, v.Values}
	case *Object:
		return []any{v.Class, v.Args, plain(v.State)}
	}
	return v
}

func TestRefuse(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "too early",
		"\x80\x02":                      "too early",
		"\x80\x01K\x01.":                "protocol 1",
		"\x80\x02X\xff\xff\xff\xffa":    "too early",
		"\x80\x02X\x01\x00\x00\x00\xff": "UTF-8",
		"\x80\x02.":                     "0 values",
		"\x80\x02(.":                    "1 values",
		"\x80\x02e.":                    "operand",
		"\x80\x02(K\x01e.":              "operand",
		"\x80\x02N(K\x01e.":             "added to a <nil>",
		"\x80\x02h\x07.":                "value 7",
		"\x80\x02K\x01)R.":              "a int64 is called",
		"\x80\x02cposix\nsystem\nX\x02\x00\x00\x00ls\x85R.":    "offset 24: it calls posix.system",
		"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R.": "it calls os.system",
		"(S'a'\n.": "opcode 0x53",
		"\x80\x02(cos\nsystem\nX\x02\x00\x00\x00lso.": "opcode 0x6f", // OBJ
		"\x80\x02K\x01Q.": "storages",
	} {
		_, _, err := Decode([]byte(in), Config{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, without %q", in, err, want)
		}
	}
	var refused *Refused
	_, _, err := Decode([]byte("\x80\x02cposix\nsystem\n)R."), Config{})
	if !errors.As(err, &refused) || refused.Global != (Global{"posix", "system"}) {
		t.Error(err)
	}
}

func TestEncode(t *testing.T) {
	d := &Dict{}
	d.Set("x", Tuple{1, int64(-5), int64(1 << 40), "é", nil, true, false})
	d.Set("y", &List{[]any{Global{"torch", "float32"}, &Object{Class: Global{"a", "B"}, Args: Tuple{}, State: Tuple{1}}}})
	d.Set("z", Call{Func: Global{"torch", "Size"}, Args: Tuple{Tuple{2, 3}}})
	d.Set("p", PersistentID{"0"})
	got, _, err := Decode(Encode(d), Config{
		Call:       func(f Global, args Tuple) (any, error) { return args[0], nil },
		Persistent: func(id any) (any, error) { return "storage " + id.(string), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []any{
		Tuple{int64(1), int64(-5), int64(1 << 40), "é", nil, true, false},
		&List{[]any{Global{"torch", "float32"}, &Object{Class: Global{"a", "B"}, Args: Tuple{}, State: Tuple{int64(1)}}}},
		Tuple{int64(2), int64(3)}, "storage 0",
	}
	if !reflect.DeepEqual(got.(*Dict).Values, want) {
		t.Errorf("%#v", got.(*Dict).Values)
	}
}

// FuzzDecode decodes any bytes in bounded memory, without a panic.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x80\x02}X\x01\x00\x00\x00aK\x02s."))
	f.Add([]byte("\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x02hi\x94."))
	f.Add([]byte("\x80\x02c__main__\nConfig\n)\x81}b."))
	f.Add([]byte("\x80\x02cposix\nsystem\nX\x02\x00\x00\x00ls\x85R."))
	f.Add([]byte("\x80\x02ccollections\nOrderedDict\n)R(K\x01K\x02u."))
	f.Add([]byte("\x80\x02cbuiltins\nset\n](K\x01e\x85R(K\x02\x90."))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := Config{
			Call: func(f Global, args Tuple) (any, error) {
				if v, ok := Simple(f, args); ok {
					return v, nil
				}
				return nil, &Refused{f}
			},
			Persistent: func(id any) (any, error) { return id, nil },
		}
		if _, n, err := Decode(b, c); n > len(b) || err == nil && n == 0 {
			t.Fatalf("%d of %d bytes, %v", n, len(b), err)
		}
	})
}
