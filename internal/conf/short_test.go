package conf_test

import (
	"bytes"
	"strings"
	"testing"

	"trireme/internal/conf"
)

// choice is a map with a short form.
type choice map[string]any

func (choice) ShortKey() string { return "name" }

type chooses struct {
	A struct {
		Rule choice `yaml:"rule"`
	} `yaml:"a"`
	List []struct {
		Rule choice `yaml:"rule"`
	} `yaml:"list"`
}

// TestShortened checks that a scalar sets one key and clears the others, and that a map merges.
func TestShortened(t *testing.T) {
	var none chooses
	none.A.Rule = choice{"name": "plain"}
	file := conf.Text("a.yaml", "a:\n  rule: {name: fast, speed: 3}\nlist: [{rule: slow}, {rule: {name: x, y: [1, 2]}}]\n")
	for _, c := range []struct {
		name    string
		sources []conf.Source
		want    string
	}{
		{"default", nil, "name: plain"},
		{"a text in a file", []conf.Source{conf.Text("b.yaml", "a:\n  rule: slow\n")}, "name: slow  # b.yaml:2:9"},
		{"a map in a file", []conf.Source{file}, "name: fast  # a.yaml:2:16\n    speed: 3  # a.yaml:2:29"},
		{"a text over a map", []conf.Source{file, conf.Set("--set", "a.rule=slow")}, "name: slow  # --set"},
		{"a key over a map", []conf.Source{file, conf.Set("--set", "a.rule.speed=4")}, "name: fast  # a.yaml:2:16\n    speed: 4  # --set"},
		{"a map over a map", []conf.Source{file, conf.Set("--set", "a.rule={speed: 4}")}, "name: fast  # a.yaml:2:16\n    speed: 4  # --set"},
	} {
		got, err := conf.Load(none, c.sources...)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var b bytes.Buffer
		if err := conf.Print(&b, got.Value, got.Origins); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "rule:\n    "+c.want) {
			t.Errorf("%s: without %q:\n%s", c.name, c.want, &b)
		}
		if speed := strings.Contains(b.String(), "speed"); speed != strings.Contains(c.want, "speed") {
			t.Errorf("%s: values of the map:\n%s", c.name, &b)
		}
		again, err := conf.Load(chooses{}, conf.Text("again", b.String()))
		if err != nil || len(conf.Diff(got.Value, again.Value)) > 0 {
			t.Errorf("%s: it reads back as %+v, %v", c.name, again.Value, err)
		}
	}
	if none.A.Rule["name"] != "plain" {
		t.Errorf("the default has become %v", none.A.Rule)
	}
}
