package main

import (
	"bytes"
	"os"
	"testing"
)

// TestFresh fails when an interface of package tensor has changed since go generate ran.
func TestFresh(t *testing.T) {
	want, err := Generate("../../../../tensor")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("../ops.go"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("internal/backend/record/ops.go is stale (%v). run: go generate ./internal/backend/record", err)
	}
}
