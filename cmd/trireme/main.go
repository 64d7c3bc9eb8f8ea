// Command trireme trains transformer language models on any number of processes. See
// package internal/cli for its commands.
package main

import (
	"os"

	"trireme/internal/cli"
)

func main() {
	cli.LimitArenas()
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
