package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shared returns a file of the shared folder, or skips the test.
func shared(t testing.TB, path string) string {
	t.Helper()
	full := filepath.Join("..", "..", "shared", "data", path)
	if _, err := os.Stat(full); errors.Is(err, os.ErrNotExist) {
		t.Skipf("%s does not exist", full)
	}
	return full
}

// write creates a file in a temporary directory.
func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

// numbered is a dataset whose row i is [i, i+1, ... i+length-1].
type numbered struct{ n, length int }

func (d numbered) Len() int           { return d.n }
func (d numbered) Info() Info         { return Info{Length: d.length, MaxID: int32(d.n + d.length)} }
func (d numbered) Tokens(int) int     { return d.length }
func (d numbered) Where(i int) string { return fmt.Sprint("row ", i) }
func (d numbered) Close() error       { return nil }
func (d numbered) Row(i int, r *Row) error {
	r.InputIDs, r.Labels, r.Class = r.InputIDs[:0], r.Labels[:0], Ignored
	for t := range d.length {
		r.InputIDs = append(r.InputIDs, int32(i+t))
		r.Labels = append(r.Labels, int32(i+t))
	}
	return nil
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q lacks %q", err, p)
		}
	}
	if strings.ContainsRune(err.Error(), '\n') {
		t.Errorf("error of several lines: %q", err)
	}
}
