// Package clustertest is for tests that need what a plain machine lacks: other programs, or network namespaces.
// They skip without it. With the variable CLUSTERTEST_NO_SKIP, which continuous integration sets where it
// installs everything, they fail instead, so that no test is lost unseen.
package clustertest

import (
	"os"
	"os/exec"
	"testing"
)

// Skip skips a test for what is missing, or fails it.
func Skip(t testing.TB, missing string) {
	t.Helper()
	if os.Getenv("CLUSTERTEST_NO_SKIP") != "" {
		t.Fatal(missing)
	}
	t.Skip("SKIPPED: " + missing)
}

// Program returns the path of a program that pkg of the system has, or skips the test.
func Program(t testing.TB, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Skip(t, name+" is not installed (Debian: "+pkg+")")
	}
	return path
}
