package main

import (
	"bytes"
	"os"
	"testing"
)

// TestFresh fails if ops.go is stale.
func TestFresh(t *testing.T) {
	want, err := Generate("../../../../tensor")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("../ops.go"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("internal/backend/record/ops.go is stale (%v). run: go generate ./internal/backend/record", err)
	}
}
