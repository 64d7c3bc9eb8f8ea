package data

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"trireme/internal/ordered"
)

func TestJSONObject(t *testing.T) {
	j := newJSONReader(false)
	fields := map[string]any{"old": 1}
	err := j.object([]byte(` {"s": "a\u00e9\n", "i": -7, "f": 1.5, "e": 1e3, "big": 9223372036854775808, "t": true, "n": null,
		"list": [1, [], {"x": ["y"]}], "o": {"z": null, "a": {}}, "": ""} `), fields)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"s": "a\u00e9\n", "i": int64(-7), "f": 1.5, "e": 1000.0, "big": 9223372036854775808.0, "t": true, "n": nil,
		"list": []any{int64(1), []any{}, ordered.Map{{Key: "x", Value: []any{"y"}}}}, "o": ordered.Map{{Key: "z", Value: nil}, {Key: "a", Value: ordered.Map{}}}, "": "",
	}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Error(diff)
	}
}

func TestJSONErrors(t *testing.T) {
	for in, want := range map[string]string{
		`[1]`:                     "a list, not a JSON object",
		`"a"`:                     "a string, not",
		`null`:                    "null, not",
		`{"a": 1} {"b": 2}`:       "another value follows",
		`{"a": 1} x`:              "invalid character 'x'",
		`{"a": `:                  "unexpected EOF",
		`{"a": NaN}`:              "invalid character 'N'",
		`{"a": 1, "a": 2}`:        `duplicate key "a"`,
		`{"a": {"b": 1, "b": 2}}`: `duplicate key "b"`,
		"{\"a\": \"\xff\"}":       `invalid UTF-8 in "a"`,
		`{"a": "\ud83d"}`:         `surrogate`,
		`{"a": 1e999}`:            "too large",
		"{\"a\": \"\x00\"}":       "invalid character",
	} {
		err := newJSONReader(false).object([]byte(in), map[string]any{})
		t.Run(in, func(t *testing.T) { wantError(t, err, want) })
	}
	fields := map[string]any{}
	if err := newJSONReader(true).object([]byte("{\"a\": \"x\xffy\\ud83dz\"}"), fields); err != nil || fields["a"] != "x\ufffdy\ufffdz" {
		t.Errorf("%q, %v", fields, err)
	}
}

func FuzzJSONObject(f *testing.F) {
	f.Add([]byte(`{"messages": [{"role": "user", "content": "hi"}], "n": 1.5, "b": null}`), false)
	f.Add([]byte("{\"a\": \"\xff\"}"), true)
	f.Add([]byte(`[{"a": 1}]`), false)
	j := [2]*jsonReader{newJSONReader(false), newJSONReader(true)}
	f.Fuzz(func(t *testing.T, b []byte, lenient bool) {
		r := j[0]
		if lenient {
			r = j[1]
		}
		a, again := map[string]any{}, map[string]any{"x": 1}
		err := r.object(b, a)
		if err2 := newJSONReader(lenient).object(b, again); (err == nil) != (err2 == nil) {
			t.Fatalf("%v, then %v", err, err2)
		}
		if diff := cmp.Diff(a, again); err == nil && diff != "" {
			t.Fatal(diff)
		}
	})
}
