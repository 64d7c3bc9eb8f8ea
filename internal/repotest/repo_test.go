package repotest

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var checks = []struct {
	name string
	run  func([]*file) []string
}{
	{"imports", checkImports},
	{"unsafe", checkUnsafe},
	{"environment", checkEnvironment},
	{"flags", checkFlags},
	{"error text", checkErrorText},
	{"groups", checkGroups},
	{"names", checkNames},
	{"docs", checkDocs},
	{"length", checkLength},
	{"format", checkFormat},
}

func TestRepository(t *testing.T) {
	files, err := load(os.DirFS(repository(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			for _, message := range c.run(files) {
				t.Error(message)
			}
		})
	}
	for _, names := range layers {
		for _, n := range names {
			if !slices.ContainsFunc(files, func(f *file) bool { return under(f.pkg, n) }) {
				t.Errorf("layers_test.go lists %s, which does not exist", n)
			}
		}
	}
}

func TestLayersListEachPackageOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, names := range layers {
		for _, n := range names {
			if seen[n] {
				t.Errorf("%s is listed twice", n)
			}
			seen[n] = true
		}
	}
}

// TestChecks runs each check on a tree that breaks it, and on one that does not.
func TestChecks(t *testing.T) {
	for _, c := range []struct {
		name, check string
		files       map[string]string
		want        []string // parts of messages
	}{
		{"down", "imports", map[string]string{"nn/a.go": "package nn\nimport _ \"trireme/tensor\"\n"}, nil},
		{"up", "imports", map[string]string{"tensor/a.go": "package tensor\n\nimport _ \"trireme/nn\"\n"},
			[]string{"tensor/a.go:3: tensor (layer 3) imports nn (layer 5): imports point down"}},
		{"up two ways", "imports", map[string]string{"nn/a.go": "package nn\nimport _ \"trireme/parallel\"\n"},
			[]string{"imports point down", "nn must not import parallel: models"}},
		{"across", "imports", map[string]string{"optim/a.go": "package optim\nimport _ \"trireme/autograd\"\n"},
			[]string{"optim imports autograd of its own layer"}},
		{"across, meant", "imports", map[string]string{"internal/impl/a.go": "package impl\nimport _ \"trireme/internal/cpuid\"\n"}, nil},
		{"within", "imports", map[string]string{"checkpoint/a.go": "package checkpoint\nimport _ \"trireme/checkpoint/safetensors\"\n"}, nil},
		{"data over collective", "imports", map[string]string{"model/llama/a.go": "package llama\nimport _ \"trireme/collective\"\n"},
			[]string{"model/llama must not import collective"}},
		{"loop over shm", "imports", map[string]string{"train/a.go": "package train\nimport _ \"trireme/collective/shm\"\n"},
			[]string{"internal/cli chooses its transport"}},
		{"backend", "imports", map[string]string{"nn/a.go": "package nn\nimport _ \"trireme/internal/backend/cpu\"\n"},
			[]string{"opened by name with device.Open"}},
		{"backend from device", "imports", map[string]string{"device/a.go": "package device\nimport _ \"trireme/internal/backend/cpu\"\n"}, nil},
		{"backend from a test", "imports", map[string]string{"autograd/a_test.go": "package autograd\nimport _ \"trireme/internal/backend/cpu\"\n"}, nil},
		{"launch", "imports", map[string]string{"train/a.go": "package train\nimport _ \"trireme/launch\"\n"},
			[]string{"only a command starts processes"}},
		{"command from a test", "imports", map[string]string{"train/a_test.go": "package train\nimport _ \"trireme/internal/cli\"\n"},
			[]string{"a test of train imports internal/cli"}},
		{"unlisted", "imports", map[string]string{"shiny/a.go": "package shiny\n"}, []string{"package shiny is in no layer"}},
		{"unlisted family", "imports", map[string]string{"model/shiny/a.go": "package shiny\n"}, []string{"package model/shiny is not in layers, unlike others in model"}},
		{"loop over a family", "imports", map[string]string{"train/a.go": "package train\nimport _ \"trireme/model/bert\"\n"},
			[]string{"train imports model/bert of its own layer", "train must not import model/bert"}},
		{"flag in a library", "flags", map[string]string{"data/a.go": "package data\n\n// --set a=b\nvar a = \"try: --set a=b\"\n"},
			[]string{"data/a.go:4: --set is a flag"}},
		{"flag of others", "flags", map[string]string{"internal/cli/a.go": "package cli\nvar a = \"--resume\"\n", "data/a_test.go": "package data\nvar a = \"--nproc 2\"\n",
			"data/b.go": "package data\nvar b = \"--nproc_per_node\"\n"}, nil},
		{"decided by text", "error text", map[string]string{"data/a.go": "package data\nvar a = strings.Contains(err.Error(), \"x\")\nvar b = strings.Contains(text, \"x\")\n"},
			[]string{"data/a.go:2: strings.Contains over an error's text"}},
		{"groups", "groups", map[string]string{"parallel/mesh.go": "package parallel\nvar g, _ = w.Group(name, ranks)\n", "parallel/a.go": "package parallel\nvar g = mesh.Group(axis)\nvar h, _ = w.Group(name, ranks)\n"},
			[]string{"parallel/a.go:3: World.Group"}},
		{"other module", "imports", map[string]string{"tools/go.mod": "module tools", "tools/a.go": "package tools\nimport _ \"unsafe\"\n"}, nil},
		{"repotest", "imports", map[string]string{"nn/a.go": "package nn\nimport _ \"trireme/internal/repotest\"\n"},
			[]string{"only tests the repository"}},
		{"unsafe", "unsafe", map[string]string{"nn/a.go": "package nn\nimport _ \"unsafe\"\n", "tensor/a.go": "package tensor\nimport _ \"unsafe\"\n"},
			[]string{"nn/a.go:2: unsafe is limited to"}},
		{"environment", "environment", map[string]string{"nn/a.go": "package nn\nimport \"os\"\nvar x = os.Getenv(\"X\")\n", "nn/nntest/a.go": "package nntest\nimport \"os\"\nvar x = os.Environ()\n", "internal/cli/a.go": "package cli\nimport \"os\"\nvar x = os.Environ()\n"},
			[]string{"nn/a.go:3: os.Getenv"}},
		{"names", "names", map[string]string{"nn/util/a.go": "package util\n", "nn/u/a.go": "package helpers\n", "nn/a.go": "package nn\n"},
			[]string{"helpers is not a name", "util is not a name"}},
		{"docs", "docs", map[string]string{
			"a/doc.go": "// Package a is.\npackage a\n", "a/a.go": "package a\n",
			"b/b.go": "// Package b is.\npackage b\n", "b/c.go": "package b\n",
			"c/d.go":      "// Package c is.\npackage c\n",
			"d/doc.go":    "package d\n",
			"e/e_test.go": "package e\n",
		}, []string{"c: no doc.go", "d: no doc.go"}},
		{"length", "length", map[string]string{
			"a/a.go":      "package a\n" + strings.Repeat("\n", 500),
			"a/a_test.go": "package a\n" + strings.Repeat("\n", 500),
			"a/b.go":      "// Code generated by x. DO NOT EDIT.\n\npackage a\n" + strings.Repeat("\n", 500),
		}, []string{"a/a.go: 501 lines"}},
		{"format", "format", map[string]string{"a/a.go": "package a\nvar  x = 1\n", "a/b.go": "package a\n\nvar x = 1\n"}, []string{"a/a.go: not as gofmt"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := fstest.MapFS{}
			for name, text := range c.files {
				tree[name] = &fstest.MapFile{Data: []byte(text)}
			}
			files, err := load(tree)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range checks {
				if k.name != c.check {
					continue
				}
				got := k.run(files)
				ok := len(got) == len(c.want)
				for i := range min(len(got), len(c.want)) {
					ok = ok && strings.Contains(got[i], c.want[i])
				}
				if !ok {
					t.Errorf("got %q, want one containing each of %q", got, c.want)
				}
			}
		})
	}
}
