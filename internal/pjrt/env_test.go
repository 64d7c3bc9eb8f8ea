package pjrt_test

import (
	"os"
	"testing"

	"trireme/internal/dl"
	"trireme/internal/pjrt"
	"trireme/internal/pjrt/pjrttest"
)

// Load limits the plug-in's log through the environment, as C sees it.
func TestLogLevel(t *testing.T) {
	if _, err := pjrt.Load(pjrttest.CPU(t)); err != nil {
		t.Fatal(err)
	}
	var getenv func(string) string
	libc, err := dl.Open("libc.so.6", false)
	if err != nil {
		t.Fatal(err)
	}
	symbol, err := dl.Symbol(libc, "getenv")
	if err != nil {
		t.Fatal(err)
	}
	dl.Bind(&getenv, symbol)
	if want := os.Getenv("TF_CPP_MIN_LOG_LEVEL"); want == "" || getenv("TF_CPP_MIN_LOG_LEVEL") != want {
		t.Errorf("C has %q, Go has %q", getenv("TF_CPP_MIN_LOG_LEVEL"), want)
	}
}
