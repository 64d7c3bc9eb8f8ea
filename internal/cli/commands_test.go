package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trireme/internal/keys"
)

// each calls f with c and every command below it that has its own help.
func each(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		each(sub, f)
	}
}

// TestEveryCommandHasExamples checks that help has examples, whose flags exist.
func TestEveryCommandHasExamples(t *testing.T) {
	each(newRoot(), func(c *cobra.Command) {
		if !strings.Contains(c.Example, "  trireme") && c.Name() != "completion" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			if err := parses(strings.TrimSpace(line)); err != nil {
				t.Errorf("%s: %s%v", c.CommandPath(), line, err)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if strings.Contains(f.Name, "-") {
				t.Errorf("%s: help shows --%s, which is not how keys are spelled", c.CommandPath(), f.Name)
			}
		})
	})
}

// TestEveryJSONIsRead checks that testdata/script/json.txtar reads the object of every command with JSON.
func TestEveryJSONIsRead(t *testing.T) {
	b, err := os.ReadFile("testdata/script/json.txtar")
	if err != nil {
		t.Fatal(err)
	}
	each(newRoot(), func(c *cobra.Command) {
		path := strings.TrimPrefix(c.CommandPath(), "trireme ")
		if c.Flags().Lookup("json") != nil && !regexp.MustCompile(`(?m)^object \S+ `+path+` .*--json`).Match(b) {
			t.Errorf("%s --json is in no script", path)
		}
	})
}

// parses returns the error in the flags of a command line of trireme.
func parses(line string) error {
	line, _, _ = strings.Cut(line, " # ")
	words := shellWords.FindAllString(line, -1)
	for len(words) > 0 && strings.Contains(words[0], "=") { // VARIABLE=value
		words = words[1:]
	}
	if len(words) == 0 || words[0] != "trireme" {
		return nil
	}
	words = words[1:]
	for i, w := range words {
		if w == "N" { // stands for a number
			words[i] = "2"
		}
		if !strings.ContainsAny(w, `"'`) && strings.ContainsAny(w, "<>|;&") || w == "..." {
			words = words[:i]
			break
		}
	}
	root := newRoot()
	c, rest, err := root.Find(bareResume(words))
	if err != nil {
		return err
	}
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	if args := c.Flags().Args(); c == root && len(args) > 0 {
		return fmt.Errorf("there is no command %s", args[0])
	}
	return nil
}

var shellWords = regexp.MustCompile(`("[^"]*"|'[^']*'|[^\s"'])+`)

// TestSpellings checks that flags are accepted with - and _ and by their aliases.
func TestSpellings(t *testing.T) {
	for _, line := range []string{
		"trireme train --model-name DIR --max-steps 3 --steps 3 --lr 1e-3 --learning-rate 1e-3 --num-epochs 2 --output out --output-dir out -o out -c x",
		"trireme train --dry-run --dry_run --config-format native", "trireme generate --max-new-tokens 3 --max_new_tokens 3 --top-k 3 --model-name DIR",
		"trireme plan --world-size 3 --nproc 3 --gpu-memory 80GB --print-config --model_name DIR", "trireme bench step --steps 3",
		"trireme tokenize --train --vocab_size 300 --output DIR", "trireme eval -c x --model_name DIR", "trireme train --nproc auto", "trireme train --resume --output_dir zz",
		"trireme train --resume",
	} {
		if err := parses(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, line := range []string{"trireme train --modle x", "trireme train --nproc many", "trireme versoin"} {
		if parses(line) == nil {
			t.Errorf("%s: no error", line)
		}
	}
}

// TestStart checks that a file of init loads once its marked lines are filled in, also with every key
// uncommented.
func TestStart(t *testing.T) {
	dir := t.TempDir()
	commented := keys.Template{Model: "DIR", Data: "x.jsonl"}.YAML("run.yaml")
	if strings.Contains(commented, "FILL IN") || strings.Count(keys.Template{}.YAML("run.yaml"), "FILL IN") != 2 {
		t.Errorf("lines are marked that need not be filled in, or none:\n%s", commented)
	}
	for name, text := range map[string]string{"commented": commented, "whole": regexp.MustCompile(`(?m)^( *)#([a-z])`).ReplaceAllString(commented, "$1$2")} {
		file := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := command("config", "show", "--config", file); code != 0 {
			t.Errorf("%s: code %d: %s", name, code, stderr)
		}
	}
}

// command runs a command line in this process.
func command(args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	code = Main(args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// TestEnumerations checks that an invalid value of an enumeration is refused with a list of the values,
// that a typo gets a suggestion, and that each listed value is accepted.
func TestEnumerations(t *testing.T) {
	enumerations := 0
	for _, k := range keys.All() {
		if len(k.Values) == 0 {
			continue
		}
		enumerations++
		_, _, stderr := command("config", "show", "--model", "DIR", "--data", "x.txt", "--set", k.Path+"=zzzzzz")
		if !strings.Contains(stderr, k.Path+`: "zzzzzz" is not one of `) {
			t.Errorf("%s=zzzzzz: %s", k.Path, stderr)
		}
		for _, v := range k.Values {
			if !strings.Contains(stderr, v) {
				t.Errorf("%s: %s is not listed: %s", k.Path, v, stderr)
			}
			if _, _, stderr := command("config", "show", "--model", "DIR", "--data", "x.txt", "--set", k.Path+"="+v); strings.Contains(stderr, "is not one of") {
				t.Errorf("%s=%s: %s", k.Path, v, stderr)
			}
			if len(v) < 4 {
				continue
			}
			misspelt := v[:len(v)-2] + v[len(v)-1:] + v[len(v)-2:len(v)-1]
			if _, _, stderr := command("config", "show", "--model", "DIR", "--data", "x.txt", "--set", k.Path+"="+misspelt); misspelt != v && !strings.Contains(stderr, `did you mean "`+v+`"?`) {
				t.Errorf("%s=%s: %s", k.Path, misspelt, stderr)
			}
		}
	}
	if enumerations < 15 {
		t.Errorf("only %d enumerations were found", enumerations)
	}
}
