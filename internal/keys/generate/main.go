// Command generate generates the reference of configuration keys from the comments of fields. go generate
// runs it in internal/keys.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := filepath.Join("..", "..") // relative to internal/keys
	files, err := reference(root)
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(root, name), text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// reference returns the generated files by their paths in the repository at root.
func reference(root string) (map[string][]byte, error) {
	table, err := collect(root)
	if err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(table, "", " ")
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	write(&page, table)
	return map[string][]byte{
		filepath.FromSlash("internal/keys/keys.json"): append(b, '\n'),
		filepath.FromSlash("docs/configuration.md"):   page.Bytes(),
	}, nil
}
