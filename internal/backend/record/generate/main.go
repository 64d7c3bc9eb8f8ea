// Command generate writes internal/backend/record/ops.go: a method per operation of package tensor.
package main

import (
	"fmt"
	"os"
)

func main() {
	text, err := Generate("../../../tensor")
	if err == nil {
		err = os.WriteFile("ops.go", text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}
