package render

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"text/template"
)

//go:embed templates
var sources embed.FS

// templates quote values for the language of each file.
var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"yaml":    quoted,
	"kube":    func(s string) (string, error) { return quoted(strings.ReplaceAll(s, "$(", "$$(")) },
	"compose": func(s string) (string, error) { return quoted(strings.ReplaceAll(s, "$", "$$")) },
	"shell":   shell,
	"shells":  shells,
	"words":   strings.Fields,
	"sub":     func(a, b int) int { return a - b },
}).ParseFS(sources, "templates/*"))

// quoted returns a string of JSON, which is one of YAML too.
func quoted(s string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(s)
	return strings.TrimSuffix(b.String(), "\n"), err
}

const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%"

// shell quotes a word for a POSIX shell.
func shell(s string) string {
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func shells(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = shell(w)
	}
	return strings.Join(out, " ")
}

// file executes the template of a name.
func file(name, source string, mode fs.FileMode, data any) (File, error) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, source, data); err != nil {
		return File{}, fmt.Errorf("render: %w", err)
	}
	return File{Name: name, Content: b.Bytes(), Mode: mode}, nil
}
