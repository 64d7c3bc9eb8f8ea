package main

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"trireme/internal/cli"
)

// pages makes the completion scripts of four shells and a man page for each command.
func pages(b *build) ([]file, error) {
	var files []file
	for _, s := range []struct {
		name string
		run  func(*cobra.Command, *bytes.Buffer) error
	}{
		{"trireme.bash", func(c *cobra.Command, w *bytes.Buffer) error { return c.GenBashCompletionV2(w, true) }},
		{"_trireme", func(c *cobra.Command, w *bytes.Buffer) error { return c.GenZshCompletion(w) }},
		{"trireme.fish", func(c *cobra.Command, w *bytes.Buffer) error { return c.GenFishCompletion(w, true) }},
		{"trireme.ps1", func(c *cobra.Command, w *bytes.Buffer) error { return c.GenPowerShellCompletionWithDesc(w) }},
	} {
		var script bytes.Buffer
		if err := s.run(cli.Commands(), &script); err != nil {
			return nil, err
		}
		files = append(files, file{"completions/" + s.name, script.Bytes(), false})
	}
	dir, err := os.MkdirTemp("", "trireme-man-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	root := cli.Commands()
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Date: &b.time, Source: "trireme " + b.version, Manual: "Trireme"}, dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, file{"man/man1/" + e.Name(), content, false})
	}
	return files, nil
}
