package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestFresh fails if a field or its comment has changed since go generate ran.
func TestFresh(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	files, err := reference(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is stale (%v). run: go generate ./internal/keys", name, err)
		}
	}
}
