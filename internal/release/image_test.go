package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// TestDockerfile checks the Dockerfile with BuildKit's parser and linter, then what the image relies
// on: a final stage from scratch with files of the build stage only, a numeric user that is not root,
// an entry point without a shell, build stages from images with a tag, and the platform from the builder.
func TestDockerfile(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range lint(t, content) {
		t.Error(problem)
	}
	bad := map[string][2]string{
		"is not a number":    {"USER 65532:65532", "USER root"},
		"is root":            {"USER 65532:65532", "USER 0"},
		"not from scratch":   {"FROM scratch", "FROM debian:12"},
		"has no tag":         {"golang:1.26-bookworm", "golang"},
		"is no stage":        {"--from=build", "--from=other"},
		"starts a shell":     {`ENTRYPOINT ["/usr/bin/trireme"]`, "ENTRYPOINT /usr/bin/trireme"},
		"hides the platform": {"ARG TARGETARCH", "ARG TARGETARCH=amd64"},
		"FromAsCasing":       {" AS build", " as build"},
	}
	for want, change := range bad {
		changed := bytes.Replace(content, []byte(change[0]), []byte(change[1]), 1)
		if got := lint(t, changed); !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("%s instead of %s: %q, want a message with %q", change[1], change[0], got, want)
		}
	}
}

func lint(t *testing.T, content []byte) (problems []string) {
	t.Helper()
	parsed, err := parser.Parse(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	l := linter.New(&linter.Config{Warn: func(rule, _, _, message string, at []parser.Range) {
		problems = append(problems, "Dockerfile:"+strconv.Itoa(at[0].Start.Line)+": "+rule+": "+message)
	}})
	stages, args, err := instructions.Parse(parsed.AST, l)
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]string{}
	for _, a := range args {
		for _, kv := range a.Args {
			if kv.Value != nil {
				defaults["${"+kv.Key+"}"] = *kv.Value
			}
		}
	}
	var names []string
	for i, s := range stages {
		base := s.BaseName
		if v, ok := defaults[base]; ok {
			base = v
		}
		last := i == len(stages)-1
		if last && base != "scratch" {
			problems = append(problems, "the final stage is from "+base+", not from scratch")
		}
		if _, tag, _ := strings.Cut(base, ":"); !last && (tag == "" || tag == "latest") {
			problems = append(problems, "the base image "+base+" has no tag")
		}
		for _, c := range s.Commands {
			if a, ok := c.(*instructions.ArgCommand); ok {
				for _, kv := range a.Args {
					if strings.HasPrefix(kv.Key, "TARGET") && kv.Value != nil {
						problems = append(problems, "ARG "+kv.Key+" has a default, which hides the platform that is built for")
					}
				}
			}
		}
		if last {
			problems = append(problems, final(s, names)...)
		}
		names = append(names, s.Name)
	}
	return problems
}

func final(s instructions.Stage, stages []string) (problems []string) {
	user, entry := "", false
	for _, c := range s.Commands {
		switch c := c.(type) {
		case *instructions.UserCommand:
			user, _, _ = strings.Cut(c.User, ":")
		case *instructions.EntrypointCommand:
			entry = true
			if c.PrependShell {
				problems = append(problems, "ENTRYPOINT starts a shell, which the image does not have")
			}
		case *instructions.CopyCommand:
			if !slices.Contains(stages, c.From) {
				problems = append(problems, "COPY: "+c.From+" is no stage above")
			}
		}
	}
	switch n, err := strconv.Atoi(user); {
	case err != nil:
		problems = append(problems, "USER "+user+" is not a number, which Kubernetes needs for runAsNonRoot")
	case n == 0:
		problems = append(problems, "USER is root")
	}
	if !entry {
		problems = append(problems, "no ENTRYPOINT")
	}
	return problems
}

// TestImage builds the image where docker or podman can, checks that it is below 50 MB, and runs the
// program in it.
func TestImage(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short builds no image")
	}
	var builder string
	for _, b := range []string{"docker", "podman"} {
		if exec.Command(b, "info").Run() == nil {
			builder = b
			break
		}
	}
	if builder == "" {
		t.Skip("SKIPPED: neither docker nor podman answers here, so the image is only linted (TestDockerfile)")
	}
	const base = "golang:1.26-bookworm"
	if exec.Command(builder, "image", "inspect", base).Run() != nil {
		if out, err := exec.Command(builder, "pull", base).CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: %s cannot pull %s, so the image is only linted (TestDockerfile): %v\n%s", builder, base, err, out)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(builder, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", builder, args, err, out)
		}
		return string(out)
	}
	const image = "localhost/trireme-test:latest"
	run("build", "-t", image, root)
	defer exec.Command(builder, "rmi", image).Run()
	text := strings.TrimSpace(run("image", "inspect", "--format", "{{.Size}}", image))
	size, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s image inspect says the size is %q", builder, text)
	}
	t.Logf("%s: %d bytes", builder, size)
	if size >= 50e6 {
		t.Errorf("the image has %d bytes, want less than 50 MB", size)
	}
	if out := run("run", "--rm", "--network=none", image, "version"); !strings.HasPrefix(out, "trireme "+"v") {
		t.Errorf("the program in the image prints %q", out)
	}
}
