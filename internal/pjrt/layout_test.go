package pjrt

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// goLayout returns the layout of the Go structs as lines of testdata/layout.txt. Members have their Go
// names, a union's is Value.
func goLayout() map[string]string {
	out := map[string]string{}
	for name, s := range layouts {
		typ := reflect.TypeOf(s)
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.Name == "_" {
				// C may have padding before its end, where the spare bytes start.
				out[name+" size"] = fmt.Sprint((f.Offset + 7) / 8 * 8)
				continue
			}
			out[name+"."+f.Name] = fmt.Sprint(f.Offset, " ", f.Type.Size())
		}
		if _, ok := out[name+" size"]; !ok {
			out[name+" size"] = fmt.Sprint(typ.Size())
		}
	}
	for _, f := range functions {
		out["PJRT_Api."+f.name] = fmt.Sprint(f.offset, " 8")
	}
	return out
}

// cLayout reads lines of offsets and sizes, with member names as in goLayout.
func cLayout(t *testing.T, file string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		switch {
		case len(f) != 3 || f[1] == "=" || f[0] == "#":
			continue
		case f[1] == "size":
			out[f[0]+" size"] = f[2]
			continue
		}
		name, member, _ := strings.Cut(f[0], ".")
		if !strings.HasPrefix(member, "PJRT_") {
			var b strings.Builder
			for part := range strings.SplitSeq(member, "_") {
				b.WriteString(strings.ToUpper(part[:1]) + part[1:])
			}
			member = b.String()
		}
		if name == "PJRT_NamedValue" && member == "StringValue" {
			member = "Value"
		}
		out[name+"."+member] = f[1] + " " + f[2]
	}
	return out
}

// The Go structs have C's offsets and sizes.
func TestLayout(t *testing.T) {
	c := cLayout(t, filepath.Join("testdata", "layout.txt"))
	for name, got := range goLayout() {
		if want, ok := c[name]; !ok || got != want {
			t.Errorf("%s: %s, C has %s", name, got, want)
		}
	}
	if len(layouts) < 40 || len(functions) < 40 {
		t.Errorf("%d structs, %d functions", len(layouts), len(functions))
	}
}

// A later version of the API has the same offsets; structs only grow.
func TestLaterLayout(t *testing.T) {
	file := filepath.Join("..", "..", "..", "shared", "xla", "offsets_104.txt")
	if _, err := os.Stat(file); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	c := cLayout(t, file)
	for name, got := range goLayout() {
		want, ok := c[name]
		if strings.HasSuffix(name, " size") && ok && len(got) <= len(want) && got <= want {
			continue
		}
		if !ok && name == "PJRT_Executable_Serialize_Args.SerializedExecutableDeleter" {
			continue // declared in place: the list lacks it
		}
		if !ok || got != want {
			t.Errorf("%s: %s, version 0.104 has %s", name, got, want)
		}
	}
}
