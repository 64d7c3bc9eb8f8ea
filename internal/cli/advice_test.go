package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestAdvice checks that some command has each flag in the texts of the program, such as suggestions
// of errors.
func TestAdvice(t *testing.T) {
	others := map[string]bool{
		"no-python": true, "no_python": true, "nnodes": true, "nproc_per_node": true, "long": true, // of torchrun and zstd
		"quiet": true, "disable-pip-version-check": true, "no-deps": true, "only-binary": true, "dest": true, // of pip
		"xla_gpu_cuda_data_dir": true,                          // of XLA
		"mpi":                   true, "ntasks-per-node": true, // of srun
		"uts":              true,                       // of unshare
		"deepspeed_config": true,                       // of scripts for DeepSpeed
		"endpoints":        true,                       // of etcdctl
		"region":           true, "instance-ids": true, // of the AWS CLI
	}
	commands := []*cobra.Command{newRoot()}
	for i := 0; i < len(commands); i++ {
		commands[i].InitDefaultHelpFlag()
		commands = append(commands, commands[i].Commands()...)
	}
	known := func(name string) bool {
		return others[name] || slices.ContainsFunc(commands, func(c *cobra.Command) bool {
			return c.Flags().Lookup(name) != nil || c.PersistentFlags().Lookup(name) != nil
		})
	}
	flag := regexp.MustCompile(`(?:^|[\s("` + "`" + `])--([a-z][a-z0-9]*(?:[-_][a-z0-9]+)*)`)
	seen := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if d.IsDir() && path == "../../bench" { // whose arguments are their own
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			l, ok := n.(*ast.BasicLit)
			if !ok || l.Kind != token.STRING {
				return true
			}
			text, _ := strconv.Unquote(l.Value)
			for _, m := range flag.FindAllStringSubmatch(text, -1) {
				seen++
				if !known(m[1]) {
					t.Errorf("%v: no command has --%s: %q", set.Position(l.Pos()), m[1], text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 50 {
		t.Errorf("%d flags seen: the pattern is wrong", seen)
	}
}
