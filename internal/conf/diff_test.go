package conf_test

import (
	"reflect"
	"testing"

	"trireme/internal/conf"
)

func TestDiff(t *testing.T) {
	type group struct {
		N int            `yaml:"n"`
		F float64        `yaml:"f"`
		M map[string]int `yaml:"m"`
	}
	type tree struct {
		A string `yaml:"a"`
		G group  `yaml:"g"`
	}
	from := tree{"x", group{1, 0.1, map[string]int{"one": 1, "gone": 2}}}
	to := tree{"x", group{2, 0, map[string]int{"one": 1, "new": 3}}}
	want := []conf.Change{{"g.n", "1", "2"}, {"g.f", "0.1", "0.0"}, {"g.m.new", "", "3"}, {"g.m.gone", "2", ""}}
	if got := conf.Diff(from, to); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := conf.Diff(to, to); got != nil {
		t.Errorf("of the same: %v", got)
	}
}
