package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trireme/internal/ordered"
)

// vector is a template's result in Jinja2.
type vector struct {
	Template     string
	Conversation string
	Prompt       bool `json:"generation_prompt"`
	Text         string
	Marks        [][2]int
	Error        string
}

func load(t testing.TB, name string, into any) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := json.NewDecoder(f).Decode(into); err != nil {
		t.Fatal(err)
	}
}

// vars parses a JSON object as variables of Render.
type vars map[string]any

func (vs *vars) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	v, err := plain(d)
	if err != nil {
		return err
	}
	*vs = vars{}
	for _, m := range v.(ordered.Map) {
		(*vs)[m.Key] = m.Value
	}
	return nil
}

// plain parses the next value of d, with ordered members.
func plain(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		if i, err := t.Int64(); err == nil {
			return i, nil
		}
		return t.Float64()
	case json.Delim:
		var list []any
		for d.More() {
			v, err := plain(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		if _, err := d.Token(); err != nil || t == '[' {
			return list, err
		}
		m := ordered.Map{}
		for i := 0; i < len(list); i += 2 {
			m = append(m, ordered.Member{Key: list[i].(string), Value: list[i+1]})
		}
		return m, nil
	}
	return t, nil
}

func date(string) string { return "26 Jul 2024" }

func (c *vector) check(t *testing.T, source string, vars vars) {
	t.Helper()
	vars["strftime_now"] = date
	tmpl, err := Parse(source)
	var out *Output
	if err == nil {
		out, err = tmpl.Render(vars)
	}
	what := c.Template + " " + c.Conversation
	if c.Error != "" {
		if err == nil {
			t.Errorf("%s: no error, Jinja2 says %s, text %q", what, c.Error, out.Text)
		} else if !strings.HasPrefix(err.Error(), "jinja: line ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error is not one line with its line number: %v", what, err)
		}
		var raised *RaisedError
		if said, ok := strings.CutPrefix(c.Error, "TemplateError: "); ok && (!errors.As(err, &raised) || raised.Message != said) {
			t.Errorf("%s: %v, the template raises %q", what, err, said)
		}
		return
	}
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	if out.Text != c.Text {
		t.Errorf("%s\n got %q\nwant %q", what, out.Text, c.Text)
	}
	if !slices.Equal(out.Generation, c.Marks) {
		t.Errorf("%s: generation %v, want %v", what, out.Generation, c.Marks)
	}
}

func TestConversations(t *testing.T) {
	var all struct {
		Conversations vars
		Tools         vars // of the conversations that have any
		Cases         []vector
	}
	load(t, "conversations.json", &all)
	for _, c := range all.Cases {
		source, err := os.ReadFile(filepath.Join("testdata", c.Template))
		if err != nil {
			t.Fatal(err)
		}
		c.check(t, string(source), vars{
			"messages": all.Conversations[c.Conversation], "tools": all.Tools[c.Conversation], "add_generation_prompt": c.Prompt,
			"bos_token": "<s>", "eos_token": "</s>",
		})
	}
}

func TestExpressions(t *testing.T) {
	var all struct {
		Variables vars
		Cases     []vector
	}
	load(t, "expressions.json", &all)
	for _, c := range all.Cases {
		c.check(t, c.Template, all.Variables)
	}
}

// A hostile template ends soon, with an error and bounded memory.
func TestLimits(t *testing.T) {
	long := strings.Repeat
	for name, source := range map[string]string{
		"loops":            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
		"range":            "{{ range(1000000000000) }}",
		"range overflow":   "{{ range(9223372036854775806, 9223372036854775807, 9223372036854775807) | length + undef }}",
		"recursion":        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"mutual":           "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
		"caller":           "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}",
		"map of map":       "{{ [[1]] | map('map', 'map', 'map', 'map') }}",
		"repeat":           "{{ 'a' * 1000000000000 }}",
		"repeat list":      "{{ [1] * 1000000000000 }}",
		"repeat twice":     "{{ ('a' * 60000000) * 60000000 }}",
		"doubling":         "{% set ns = namespace(x='aa') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
		"doubling list":    "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
		"doubling tree":    "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
		"equal trees":      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x == ns.x }}",
		"json trees":       "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}",
		"deep value":       "{% set ns = namespace(x=[1]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
		"cycle":            "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x }}",
		"replace":          "{{ ('a' * 60000000).replace('', 'bbbbbbbbbbbbbbbbbbbbbbbb') }}",
		"indent":           "{{ ('\n' * 1000000) | indent(1000, blank=true) }}",
		"output":           "{% for i in range(99999) %}{{ 'a' * 1000000 }}{% endfor %}",
		"join":             "{{ range(99999) | join('a' * 100000) }}",
		"parentheses":      "{{ " + long("(", 100_000) + " }}",
		"brackets":         "{{ " + long("[", 100_000),
		"not":              "{{ " + long("not ", 50_000) + "1 }}",
		"minus":            "{{ " + long("-", 100_000) + "1 }}",
		"tags":             long("{% if 1 %}", 20_000),
		"long":             long("a", maxSource+1),
		"huge number":      "{{ 1" + long("0", 1000) + " }}",
		"comparison":       "{% set l = range(3000) | list %}{% for i in l %}{% for j in l %}{{ l == l }}{% endfor %}{% endfor %}",
		"sort":             "{% for i in range(99999) %}{{ range(99999) | sort(reverse=true) | length }}{% endfor %}",
		"negative":         "{{ -9223372036854775807 - 2 }}",
		"unpacked":         "{{ dict(*range(99999)) }}",
		"unclosed comment": "{# ",
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			tmpl, err := Parse(source)
			if err == nil {
				_, err = tmpl.Render(map[string]any{})
			}
			if err == nil {
				t.Error("no error")
			} else if len(err.Error()) > 300 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if d := time.Since(begin); d > 30*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}

// Unsupported constructs are an error with name and line.
func TestUnsupported(t *testing.T) {
	for source, want := range map[string]string{
		"\n{{ 'a1'.isalnum() }}":                              `jinja: line 2: unsupported string attribute "isalnum"`,
		"{{ [1].append(2) }}":                                 `jinja: line 1: unsupported attribute "append" of a list`,
		"{{ (1, 2).count(2) }}":                               `jinja: line 1: unsupported attribute "count" of a tuple`,
		"\n\n{{ [1] | unique }}":                              `jinja: line 3: unsupported filter "unique"`,
		"{{ 'a' is sameas 'a' }}":                             `jinja: line 1: unsupported test "sameas"`,
		"{% for i in [1] recursive %}{% endfor %}":            `jinja: line 1: unexpected "recursive"`,
		"{% filter upper %}a{% endfilter %}":                  `jinja: line 1: unsupported tag "filter"`,
		"{% raw %}{{ a }}{% endraw %}":                        `jinja: line 1: unsupported tag "raw"`,
		"{% with a = 1 %}{% endwith %}":                       `jinja: line 1: unsupported tag "with"`,
		"{{ 2 ** 3 }}":                                        `jinja: line 1: unexpected "**"`,
		"{{ '%s' % 1 }}":                                      `jinja: line 1: unsupported operands: a string % an integer`,
		"{% for i in [1] %}{{ loop.changed(i) }}{% endfor %}": `jinja: line 1: an object has no attribute "changed"`,
	} {
		tmpl, err := Parse(source)
		if err == nil {
			_, err = tmpl.Render(map[string]any{})
		}
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
	}
}

// A strict template stops at every undefined value; text of the caller's lists and functions is printed as it is.
func TestStrict(t *testing.T) {
	for source, want := range map[string]string{
		"\n{{ a }}":                            `jinja: line 2: "a" is undefined`,
		"\n{% if x %}{% elif\na %}{% endif %}": `jinja: line 3: "a" is undefined`,
		"\n{% for b in a %}{% endfor %}":       `jinja: line 2: "a" is undefined`,
		"{% for b in list if a %}{% endfor %}": `jinja: line 1: "a" is undefined`,
		"{{ a is defined }}":                   `jinja: line 1: "a" is undefined`,
		"{{ list.a }}":                         `jinja: line 1: unsupported attribute "a" of a list`,
		"{{ list[2] }}":                        "jinja: line 1: a list has no item with that key",
		"{{ 1 if x }}":                         "jinja: line 1: the condition is false and has no else",
		"{{ a if x else 1 }}{{ x and a }}":     "",
		"{% for w in list %}{{ up(w) }}{% endfor %}{{ list|join(',') }}": "",
	} {
		tmpl, err := Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		vars := map[string]any{"x": false, "list": []string{"<b>", "'"}, "up": strings.ToUpper}
		if _, err := tmpl.Render(vars); err != nil {
			t.Errorf("%s: %v, though it is not strict", source, err)
		}
		tmpl.Strict = true
		out, err := tmpl.Render(vars)
		switch {
		case want != "":
			if err == nil || err.Error() != want {
				t.Errorf("%s: %v, want %s", source, err, want)
			}
		case err != nil:
			t.Errorf("%s: %v", source, err)
		case out.Text != "1False" && out.Text != "<B>'<b>,'":
			t.Errorf("%s: %q", source, out.Text)
		}
	}
}

// Render does not change its arguments and keeps no state.
func TestCopies(t *testing.T) {
	tmpl, err := Parse("{% set messages = messages + [1] %}{% set x = (x or 0) + 1 %}{{ messages | length }}{{ x }}")
	if err != nil {
		t.Fatal(err)
	}
	messages := []any{ordered.Map{{Key: "role", Value: "user"}}}
	for range 2 {
		out, err := tmpl.Render(map[string]any{"messages": messages})
		if err != nil || out.Text != "21" {
			t.Fatalf("%v, %v", out, err)
		}
	}
	if len(messages) != 1 {
		t.Error("the list has grown")
	}
	if _, err := tmpl.Render(map[string]any{"x": struct{}{}}); err == nil {
		t.Error("a Go value was accepted")
	}
}

func FuzzRender(f *testing.F) {
	var all struct {
		Variables vars
		Cases     []vector
	}
	load(f, "expressions.json", &all)
	all.Variables["strftime_now"] = date
	for _, c := range all.Cases {
		f.Add(c.Template)
	}
	files, _ := filepath.Glob("testdata/*.jinja")
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(source))
	}
	all.Variables["messages"] = []any{ordered.Map{{Key: "role", Value: "user"}, {Key: "content", Value: "a"}}, ordered.Map{{Key: "role", Value: "assistant"}, {Key: "content", Value: "b"}}}
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := Parse(source)
		if err != nil {
			return
		}
		a, err := tmpl.Render(all.Variables)
		if err != nil {
			return
		}
		b, err := tmpl.Render(all.Variables)
		if err != nil || a.Text != b.Text {
			t.Fatalf("two runs differ: %q and %q, %v", a.Text, b.Text, err)
		}
	})
}
