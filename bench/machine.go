package main

import (
	"cmp"
	"context"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// processor is a kind of processor, as the operating system names it.
type processor struct {
	Name   string `json:"name"`
	Family string `json:"family,omitempty"`
	Model  string `json:"model,omitempty"`
	Cores  int    `json:"cores"` // of this process
}

func readProcessor() processor {
	text, _ := os.ReadFile("/proc/cpuinfo") // only Linux has it
	p := parseProcessor(string(text))
	p.Name, p.Cores = cmp.Or(p.Name, runtime.GOARCH), runtime.NumCPU()
	return p
}

// parseProcessor reads the first processor of a text like /proc/cpuinfo.
func parseProcessor(text string) (p processor) {
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			break
		}
		switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
		case "model name":
			p.Name = value
		case "cpu family":
			p.Family = value
		case "model":
			p.Model = value
		}
	}
	return p
}

// describe describes this machine and both programs.
func (h *harness) describe(ctx context.Context) (*results, error) {
	r := &results{Schema: schema, Date: time.Now().UTC().Format(time.DateOnly), Command: commandLine(h.args), Processor: readProcessor()}
	v, err := h.ours("version")(ctx)
	if err != nil {
		return nil, err
	}
	kernels, _ := v["kernels"].(string)
	for _, name := range h.instructions {
		s := instructionSet{Name: name, Trireme: name}
		if name == "auto" {
			s.Trireme = kernels
		}
		if h.peer != nil {
			if r.PyTorch, s.PyTorch, err = h.peer.version(ctx, name); err != nil {
				return nil, err
			}
		}
		r.Instructions = append(r.Instructions, s)
	}
	return r, nil
}

// kernels returns the instruction set that trireme selects by a flag's value.
func (h *harness) kernels(name string) string {
	i := slices.IndexFunc(h.results.Instructions, func(s instructionSet) bool { return s.Name == name })
	return h.results.Instructions[i].Trireme
}

// commandLine returns the command that measures, for a shell.
func commandLine(args []string) string {
	words := []string{"go run ./bench"}
	for _, a := range args {
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$&|;<>()*?`!#~") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}
