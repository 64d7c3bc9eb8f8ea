package launch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseStreams(t *testing.T) {
	for text, want := range map[string]string{ // local ranks 0 to 2: the streams that are selected
		"0": "   ", "1": "o o o ", "2": "e e e ", "3": "oe oe oe ", "0:3,2:1": "oe  o ", "12:3": "   ",
		"4": "-", "": "-", "-1": "-", "0:4": "-", "0:": "-", "a:1": "-", "0:1,0:2": "-", "1,2": "-", "03": "-", "-1:3": "-",
	} {
		s, err := ParseStreams(text)
		got := ""
		for local := range 3 {
			for i, c := range "oe" {
				if s.has(local, i) {
					got += string(c)
				}
			}
			got += " "
		}
		if err != nil {
			got = "-"
		}
		if got != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}

func FuzzParseStreams(f *testing.F) {
	f.Add("0:3,1:1")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseStreams(text); err != nil && s.Any() {
			t.Error(s, err)
		}
	})
}

func TestPrefixed(t *testing.T) {
	for in, want := range map[string]string{
		"a\nb\n":             "p:a\np:b\n",
		"a|b\n":              "p:ab\n",
		"\r10%|\r20%|\r\n|x": "p:10%\np:20%\np:x\n",
		"\n":                 "p:\n",
	} {
		var b bytes.Buffer
		p := &prefixed{w: &b, prefix: "p:"}
		for part := range strings.SplitSeq(in, "|") {
			p.Write([]byte(part))
		}
		p.flush()
		if b.String() != want {
			t.Errorf("%q: %q, not %q", in, b.String(), want)
		}
	}
	var b bytes.Buffer
	p := &prefixed{w: &b}
	p.Write([]byte("\r1%"))
	p.Write([]byte("\r2%\nhalf"))
	p.Write([]byte(strings.Repeat("x", tailSize)))
	if b.String() != "\r1%\r2%\nhalf"+strings.Repeat("x", tailSize) {
		t.Errorf("%.40q", b.String())
	}
}

// Streams of each worker go to the terminal, to files or to both, as torchrun's flags select them.
func TestStreams(t *testing.T) {
	for _, c := range []struct {
		redirects, tee string
		ranks          []int
		shown, files   string
	}{
		{"0", "0", nil, "err 0,err 1,err 2,out 0,out 1,out 2", ""},
		{"0", "0", []int{1}, "err 1,out 1", ""},
		{"3", "0", nil, "", "0/stderr.log,0/stdout.log,1/stderr.log,1/stdout.log,2/stderr.log,2/stdout.log"},
		{"0", "0:3", nil, "[default0]:err 0,[default0]:out 0,err 1,err 2,out 1,out 2", "0/stderr.log,0/stdout.log"},
		{"1", "2", []int{2}, "[default2]:err 2", "0/stderr.log,0/stdout.log,1/stderr.log,1/stdout.log,2/stderr.log,2/stdout.log"},
	} {
		var out buffer
		cfg := config("talk", 3, &out)
		cfg.Output = Output{All: true, Ranks: c.ranks, Dir: t.TempDir()}
		cfg.Output.Redirects, _ = ParseStreams(c.redirects)
		cfg.Output.Tee, _ = ParseStreams(c.tee)
		if code, err := Run(t.Context(), cfg); code != 0 || err != nil {
			t.Fatal(code, err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		slices.Sort(lines)
		if got := strings.Join(lines, ","); got != c.shown {
			t.Errorf("-r %s -t %s: shown %q, not %q", c.redirects, c.tee, got, c.shown)
		}
		names, _ := filepath.Glob(filepath.Join(cfg.Output.Dir, "attempt_0", "*", "*.log"))
		for i, name := range names {
			names[i], _ = filepath.Rel(filepath.Join(cfg.Output.Dir, "attempt_0"), name)
			b, err := os.ReadFile(name)
			if want := filepath.Base(name)[3:6] + " " + filepath.Dir(names[i]) + "\n"; err != nil || string(b) != want {
				t.Errorf("%s: %q", names[i], b)
			}
		}
		if got := strings.Join(names, ","); got != c.files {
			t.Errorf("-r %s -t %s: files %q, not %q", c.redirects, c.tee, got, c.files)
		}
	}
}

// The message in the error file of the first failed worker is the reason in the failure.
func TestErrorFile(t *testing.T) {
	cfg := config("reason", 2, &buffer{})
	cfg.Output = Output{All: true, Dir: t.TempDir()}
	code, err := Run(t.Context(), cfg)
	var f *Failure
	if !errors.As(err, &f) || code != 1 || f.Rank != 1 || f.Reason != "RuntimeError: no oars" || !strings.Contains(err.Error(), ": RuntimeError: no oars. 1 other rank") {
		t.Fatal(code, err)
	}
	if f.Shown {
		t.Error("mixed output counts as shown")
	}
}

func FuzzParseReason(f *testing.F) {
	f.Add([]byte(`{"message": {"message": "RuntimeError: boom\n  at", "extraInfo": {"py_callstack": "Traceback", "timestamp": "1"}}}`))
	f.Add([]byte(`{"message": "boom"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s := parseReason(b); strings.ContainsAny(s, "\n\r") || len(s) > maxReason+8 {
			t.Errorf("%q", s)
		}
	})
}

func TestReason(t *testing.T) {
	for in, want := range map[string]string{
		`{"message": {"message": "RuntimeError: a\n b"}}`: "RuntimeError: a b", `{"message": "x"}`: "x", `{"message": 3}`: "", `{}`: "", `[`: "", "": "",
	} {
		if got := parseReason([]byte(in)); got != want {
			t.Errorf("%s: %q", in, got)
		}
	}
	long, _ := json.Marshal(map[string]string{"message": strings.Repeat("é", 1000)})
	if got := parseReason(long); len(got) > maxReason+4 || !strings.HasSuffix(got, "é ...") {
		t.Errorf("%d bytes: %q", len(got), fmt.Sprint(got[len(got)-8:]))
	}
}
