package render

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"trireme/internal/jinja"
	"trireme/internal/ordered"
)

//go:embed templates
var sources embed.FS

// file renders a template with the description and further variables.
func (d *description) file(name, source string, mode fs.FileMode, more map[string]any) (File, error) {
	source = "templates/" + source
	text, err := sources.ReadFile(source)
	if err != nil {
		return File{}, fmt.Errorf("render: %w", err)
	}
	t, err := jinja.Parse(string(text))
	if err != nil {
		return File{}, fmt.Errorf("render: %s: %w", source, err)
	}
	t.Strict = true
	vars := d.variables()
	maps.Copy(vars, more)
	out, err := t.Render(vars)
	if err != nil {
		return File{}, fmt.Errorf("render: %s: %w", source, err)
	}
	// As Jinja2 does by default, the last line end is dropped.
	return File{Name: name, Content: []byte(out.Text + "\n"), Mode: mode}, nil
}

// variables returns those of all templates. Functions quote values for the language of a file.
func (d *description) variables() map[string]any {
	env := ordered.Map{}
	for _, name := range slices.Sorted(maps.Keys(d.Env)) {
		env = append(env, ordered.Member{Key: name, Value: d.Env[name]})
	}
	return map[string]any{
		"yaml":    quoted,
		"kube":    func(s string) string { return quoted(strings.ReplaceAll(s, "$(", "$$(")) },
		"compose": func(s string) string { return quoted(strings.ReplaceAll(s, "$", "$$")) },
		"shell":   shell,

		"name": d.Name, "image": d.Image, "env": env, "port": d.Port,
		"nnodes": d.Nnodes, "least": d.Least, "hosts": d.Hosts, "elastic": d.Elastic,
		"cpus": d.CPUs, "memory_gib": d.MemoryGiB, "gpus": d.GPUs, "shm_gib": d.ShmGiB, "work_gib": d.WorkGiB,
		"hours": d.Hours, "stop_seconds": d.StopSeconds,
		"region": d.Region, "instance_type": d.InstanceType,
	}
}

// quoted returns a string of JSON, which is one of YAML too.
func quoted(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s) // a string in memory: no error
	return strings.TrimSuffix(b.String(), "\n")
}

const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%"

// shell quotes a word for a POSIX shell.
func shell(s string) string {
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
