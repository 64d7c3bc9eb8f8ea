package main

import (
	"fmt"
	"io"
	"strings"

	"trireme/internal/keys"
)

const head = `# Configuration reference

Generated from the comments of the configuration's fields; do not edit. ` + "`trireme config keys [GROUP]`" + `
prints the same, and ` + "`trireme init`" + ` writes a commented file with these keys.

Every key is optional, but a run needs a model and data. A value comes from the first of these sources
that sets it:

1. a flag, such as ` + "`--max_steps 20`" + `
2. ` + "`--set training.max_steps=20`" + `
3. the environment variable ` + "`TRIREME_TRAINING_MAX_STEPS=20`" + `
4. the file after ` + "`--config`" + `
5. the default

` + "`trireme config show --origin`" + ` prints each value with its source.
`

// write writes the page: a table for the top level and one for each group.
func write(w io.Writer, table []keys.Key) {
	fmt.Fprint(w, head)
	section(w, table, "", "Top level", "")
	for _, k := range table {
		if k.Type == keys.Group {
			section(w, table, k.Path, k.Path, k.Meaning)
		}
	}
}

func section(w io.Writer, table []keys.Key, group, title, meaning string) {
	var rows []string
	for _, k := range table {
		if k.Type == keys.Group || keys.Parent(k.Path) != group {
			continue
		}
		var cell []string
		if len(k.Values) > 0 {
			cell = append(cell, "One of "+code(k.Values...)+".")
		}
		if k.Meaning != "" {
			cell = append(cell, k.Meaning)
		}
		text := strings.ReplaceAll(strings.Join(cell, " "), "|", `\|`)
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |\n", code(keys.Name(k.Path)), k.Type, code(k.Default), text))
	}
	fmt.Fprintf(w, "\n## %s\n", title)
	if meaning != "" {
		fmt.Fprintf(w, "\n%s\n", meaning)
	}
	if len(rows) > 0 {
		fmt.Fprintf(w, "\n| key | type | default | meaning |\n|---|---|---|---|\n%s", strings.Join(rows, ""))
	}
}

func code(texts ...string) string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = "`" + t + "`"
	}
	return strings.Join(out, ", ")
}
