package cli

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"trireme/internal/keys"
)

// TestPagesRun runs the commands of each page in their order, in a copy of the repository, with
// nothing changed but the environment that a marker in the page adds.
func TestPagesRun(t *testing.T) {
	if testing.Short() {
		t.Skip("the commands of the pages are not run: they take a minute")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("the commands of the pages are not run: there is no bash")
	}
	home := t.TempDir() // one cache of tokens for all pages
	blocks := 0
	for _, p := range documentation(t) {
		script, n, needsCode := p.script()
		if blocks += n; n == 0 {
			continue
		}
		t.Run(strings.ReplaceAll(p.name, "/", "_"), func(t *testing.T) {
			dir := t.TempDir()
			if err := copyTree("../..", dir, needsCode); err != nil {
				t.Fatal(err)
			}
			c := exec.Command(bash, "-c", script)
			c.Dir, c.Env = dir, pageEnvironment(t, home)
			c.WaitDelay = time.Second
			began := time.Now()
			out, err := c.CombinedOutput()
			t.Logf("%d blocks in %.1f s", n, time.Since(began).Seconds())
			if err != nil {
				text := strings.Split(strings.TrimSpace(string(out)), "\n")
				t.Errorf("%v; the last of its output:\n%s", err, strings.Join(text[max(0, len(text)-25):], "\n"))
			}
		})
	}
	if blocks < 20 {
		t.Errorf("only %d blocks of commands were run", blocks)
	}
}

// script is the page as one script for bash. needsCode says whether it builds the program.
func (p page) script() (script string, blocks int, needsCode bool) {
	var b strings.Builder
	b.WriteString("set -euo pipefail\ntrap 'echo \"the command above failed with $?\" >&2' ERR\n")
	for _, f := range p.blocks {
		switch {
		case f.marker == "file":
			fmt.Fprintf(&b, "mkdir -p \"$(dirname %s)\"\ncat > %s <<'END_OF_FILE'\n%sEND_OF_FILE\n", f.value, f.value, f.text)
			continue
		case f.lang != "sh", f.marker == "not run":
			continue
		}
		blocks++
		needsCode = needsCode || regexp.MustCompile(`(?m)^(go|make) `).MatchString(f.text)
		fmt.Fprintf(&b, "echo '== %s:%d' >&2\n", p.name, f.line)
		switch f.marker {
		case "with":
			for _, v := range strings.Fields(f.value) {
				name, _, _ := strings.Cut(v, "=")
				fmt.Fprintf(&b, "export %s\n", v)
				f.text += "unset " + name + "\n"
			}
			b.WriteString(f.text)
		case "code":
			fmt.Fprintf(&b, "status=0\n(\n%s) || status=$?\n[ $status = %s ]\n", f.text, f.value)
		default:
			b.WriteString(f.text)
		}
	}
	return b.String(), blocks, needsCode
}

// pageEnvironment is the environment of a page's commands: no hub, no settings of this machine.
// -trimpath lets copies of the repository share the build cache.
func pageEnvironment(t *testing.T, home string) []string {
	t.Helper()
	var out []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TRIREME_") && !strings.HasPrefix(v, "HF_") {
			out = append(out, v)
		}
	}
	out = append(out, "HOME="+home, "XDG_CACHE_HOME="+home, "HF_HOME="+home, "HF_HUB_OFFLINE=1", "GOFLAGS=-trimpath")
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		b, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Skipf("the commands of the pages are not run: go env %s: %v", name, err)
		}
		out = append(out, name+"="+strings.TrimSpace(string(b)))
	}
	return out
}

// copyTree copies the examples, or with code the whole tree without hidden files and outputs.
func copyTree(from, to string, code bool) error {
	if !code {
		return os.CopyFS(filepath.Join(to, "examples"), os.DirFS(filepath.Join(from, "examples")))
	}
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case name == ".":
			return nil
		case strings.HasPrefix(e.Name(), "."), name == "runs", name == "out", name == "trireme", e.Name() == "testdata":
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !e.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), b, 0o644)
	})
}

// TestPagesCommands: commands in fences and between back quotes have commands, flags and keys that
// exist, whether they are run or not.
func TestPagesCommands(t *testing.T) {
	lines := 0
	for _, p := range documentation(t) {
		check := func(line int, command string) {
			lines++
			if err := documented(command); err != nil {
				t.Errorf("%s:%d: %s\n\t%v", p.name, line, command, err)
			}
		}
		for _, b := range p.blocks {
			if b.lang != "sh" {
				continue
			}
			for _, c := range commands(b.text) {
				check(b.line, c)
			}
		}
		for _, s := range p.spans {
			if strings.HasPrefix(s.text, "trireme ") {
				check(s.line, s.text)
			}
			if name := s.text; keyLike.MatchString(name) && !fileLike.MatchString(name) && keys.IsGroup(strings.Split(name, ".")[0]) {
				if !isKey(name) {
					t.Errorf("%s:%d: there is no key %s", p.name, s.line, name)
				}
			}
		}
	}
	if lines < 60 {
		t.Errorf("only %d commands were found", lines)
	}
}

var (
	keyLike       = regexp.MustCompile(`^[a-z_]+(\.[a-z_]+)+$`)
	shellVariable = regexp.MustCompile(`\$[0-9A-Za-z_]+`)
	fileLike      = regexp.MustCompile(`\.(go|json|yaml|md|safetensors)$`)
)

// isKey says whether a path is a key, a group, or in a key that holds a map.
func isKey(path string) bool {
	if len(keys.Under(path)) > 0 {
		return true
	}
	parent, ok := keys.Find(keys.Parent(path))
	return ok && strings.Contains(parent.Type, "map")
}

// documented says what is wrong with a command of a page.
func documented(line string) error {
	words := shellWords.FindAllString(line, -1)
	for i, w := range words {
		if name, _, ok := strings.Cut(w, "="); ok && strings.HasPrefix(name, "TRIREME_") && !isVariable(name) {
			return fmt.Errorf("there is no key for %s", name)
		}
		if set, ok := strings.CutPrefix(w, "--set="); ok {
			w, words = "--set", append(words[:i+1:i+1], append([]string{set}, words[i+1:]...)...)
		}
		if w != "--set" || i+1 >= len(words) {
			continue
		}
		key, _, _ := strings.Cut(strings.Trim(words[i+1], `"'`), "=")
		if key != "KEY" && !isKey(key) {
			return fmt.Errorf("there is no key %s", key)
		}
	}
	if words[0] == "go" {
		return nil
	}
	// The command may follow variables, or another launcher.
	if i := slices.Index(words, "trireme"); i >= 0 {
		return parses(shellVariable.ReplaceAllString(strings.Join(words[i:], " "), "2"))
	}
	return nil
}

// isVariable says whether an environment variable sets a key, or is documented as one of its own.
func isVariable(name string) bool {
	if strings.HasPrefix(name, "TRIREME_JOB_SECRET") {
		return true
	}
	path := strings.ToLower(strings.TrimPrefix(name, "TRIREME_"))
	for _, k := range keys.All() {
		if strings.ReplaceAll(k.Path, ".", "_") == path {
			return true
		}
	}
	return false
}

// TestReadPage checks the errors and the parts of pages.
func TestReadPage(t *testing.T) {
	good := "# A\n\n<!-- with: TRIREME_TRAINING_MAX_STEPS=2 -->\n```sh\ntrireme train \\\n  --nproc 2 | cat; trireme version # x\n```\n" +
		"<!-- file: a/run.yaml -->\n```yaml\nname: x\n```\nand `trireme plan`\n<!-- not run: a cluster -->\n```sh\nsrun x\n```\n"
	p, err := readPage("a.md", good)
	if err != nil || len(p.blocks) != 3 || len(p.spans) != 1 || p.blocks[0].marker != "with" || p.blocks[1].value != "a/run.yaml" || p.blocks[2].marker != "not run" {
		t.Fatalf("%+v, %v", p, err)
	}
	if got := strings.Join(commands(p.blocks[0].text), "|"); got != "trireme train --nproc 2|cat|trireme version" {
		t.Errorf("commands: %s", got)
	}
	script, n, code := p.script()
	want := "export TRIREME_TRAINING_MAX_STEPS=2\ntrireme train \\\n  --nproc 2 | cat; trireme version # x\nunset TRIREME_TRAINING_MAX_STEPS\n"
	if n != 1 || code || !strings.Contains(script, want) || !strings.Contains(script, "cat > a/run.yaml <<") || strings.Contains(script, "srun") {
		t.Errorf("%d blocks, code %v:\n%s", n, code, script)
	}
	for text, want := range map[string]string{
		"a\n\n    trireme train\n":             "an indented command",
		"```text\ntrireme train\n```\n":        "is not run. use sh",
		"```\ntrireme train\n```\n":            "a fence has one word",
		"```sh\ntrireme train\n":               "has no end",
		"<!-- no run: x -->\n```sh\nls\n```\n": "an unknown marker",
	} {
		if _, err := readPage("a.md", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, line := range []string{"trireme train --set training.max_step=1", "TRIREME_TRAINING_MAX_STEP=1 trireme train", "torchrun trireme train --confg x", "trireme train --set=data.pth=x"} {
		if documented(line) == nil {
			t.Errorf("%s: no error", line)
		}
	}
}
