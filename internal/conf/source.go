package conf

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// EnvPrefix is the prefix of environment variables for keys.
const EnvPrefix = "TRIREME_"

// maxFile limits the size of a configuration file.
const maxFile = 4 << 20

// Source is a source of values.
type Source struct {
	kind     sourceKind
	label    string // a file's name, a flag's name
	path     string
	text     string
	env      map[string]string
	assign   []Assignment
	problems Errors
	hint     Hint
}

type sourceKind int

const (
	kindFile sourceKind = iota
	kindText
	kindSet
	kindFlag
	kindEnv
	kindAssign
	kindUnread
	kindHints
)

// File reads YAML from a file, when Load runs. Messages name it as given.
func File(name string) Source { return Source{kind: kindFile, label: name} }

// Text is YAML in memory; messages use name as the file name.
func Text(name, yaml string) Source { return Source{kind: kindText, label: name, text: yaml} }

// Set is one assignment of a flag: path.to.key=value. A list, map or node is YAML; a list of scalars may
// also be a,b,c.
func Set(flag, assignment string) Source {
	return Source{kind: kindSet, label: flag, text: assignment}
}

// Flag sets path to the value of a command-line flag; name (with dashes) is its origin.
func Flag(name, path, value string) Source {
	return Source{kind: kindFlag, label: name, path: path, text: value}
}

// Env reads variables TRIREME_<PATH>: the key's path in upper case, dots as underscores. Empty values
// count as unset. A TRIREME_ name that is no key is an error, so callers remove their other variables.
func Env(environ map[string]string) Source { return Source{kind: kindEnv, env: environ} }

// Hint suggests a key for an unknown path, such as another program's name: meant is the key's path or
// "", why an addition to the message, such as " (lr in torchtune)".
type Hint func(path string) (meant, why string)

// Hints is a source without values that provides the hint for all sources.
func Hints(h Hint) Source { return Source{kind: kindHints, hint: h} }

// credentials are the parts of a URL that may be secret, which messages do not repeat: user and query.
var credentials = regexp.MustCompile(`(://)[^/@\s]*@|(://[^\s?]*\?)\S+`)

func (d *decoder) apply(s Source) {
	switch s.kind {
	case kindFile:
		text, err := readFile(s.label)
		if err != nil {
			d.problem(Problem{Where: s.label, Text: fileError(err), Err: err})
			d.unread = true
			return
		}
		d.document(s.label, text)
	case kindText:
		d.document(s.label, s.text)
	case kindSet:
		path, value, ok := strings.Cut(s.text, "=")
		path = strings.TrimSpace(path)
		label := s.label + " " + clip(credentials.ReplaceAllString(s.text, "$1$2***"))
		if !ok || path == "" {
			d.problem(Problem{Where: label, Text: "is not an assignment. try: " + s.label + " path.to.key=value"})
			return
		}
		d.assign(&origin{label: label}, path, strings.TrimSpace(value))
	case kindFlag:
		d.assign(&origin{label: s.label}, s.path, s.text)
	case kindEnv:
		d.environment(s.env)
	case kindUnread:
		for _, p := range s.problems {
			d.problem(p)
		}
		d.unread = true
	case kindAssign:
		for _, a := range s.assign {
			d.assign(&origin{label: a.Where}, a.Path, a.Value)
		}
	}
}

func (d *decoder) document(name, text string) {
	root, problems := parse(&origin{label: name, file: true}, text)
	for _, p := range problems {
		d.problem(p)
	}
	if root == nil || root.kind == nullNode {
		d.unread = d.unread || len(problems) > 0
		return
	}
	if root.kind != mapNode {
		d.unread = true
		d.problem(Problem{Where: root.at(), Text: "is " + root.describe() + ", not a configuration (keys with values)"})
		return
	}
	d.value(root, d.root, "")
}

// assign decodes text at a dotted path.
func (d *decoder) assign(from *origin, path, text string) {
	n := &node{kind: rawNode, text: text, from: from}
	keys := strings.Split(path, ".")
	for _, key := range slices.Backward(keys) {
		n = &node{kind: mapNode, from: from, entries: []entry{{key: key, value: n}}}
	}
	d.value(n, d.root, "")
}

func (d *decoder) environment(environ map[string]string) {
	paths := map[string]string{}
	walkPaths(d.root.Type(), func(path string) {
		name := envName(path)
		if _, taken := paths[name]; !taken {
			paths[name] = path
		}
	})
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		value := environ[name]
		if !strings.HasPrefix(name, EnvPrefix) || value == "" {
			continue
		}
		label := "environment " + name
		path, ok := paths[name]
		if !ok {
			text := "no such key"
			near := Nearest(name, slices.Sorted(maps.Keys(paths)))
			if meant, why := d.hinted(strings.ToLower(strings.TrimPrefix(name, EnvPrefix))); meant != "" {
				text += ". did you mean " + envName(meant) + why + "?"
			} else if near != "" {
				text += ". did you mean " + near + "?"
			}
			d.problem(Problem{Where: label, Text: text})
			continue
		}
		d.assign(&origin{label: label}, path, value)
	}
}

// envName returns the variable of a key.
func envName(path string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

func readFile(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return "", errIsDir
	}
	if info.Size() > maxFile {
		return "", errTooLarge
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1)) // may be a pipe or a device
	if len(b) > maxFile {
		return "", errTooLarge
	}
	return string(b), err
}

var (
	errIsDir    = errors.New("is a directory, not a configuration file")
	errTooLarge = errors.New("is larger than 4 MiB: not a configuration file")
)

// fileError returns the message of a file's error without the name.
func fileError(err error) string {
	var pathErr *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file"
	case errors.As(err, &pathErr):
		return pathErr.Err.Error()
	}
	return err.Error()
}

// clip shortens user input to one line of 60 characters.
func clip(s string) string {
	if r := []rune(printable(s)); len(r) > 60 {
		return string(r[:57]) + "..."
	}
	return printable(s)
}

// clipStart is clip for an origin. It keeps the end: the file's name, line and column.
func clipStart(s string) string {
	if r := []rune(printable(s)); len(r) > 60 {
		return "..." + string(r[len(r)-57:])
	}
	return printable(s)
}

// printable returns s on one line, without control characters.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
