package model

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"trireme/fault"
)

// tasks maps task names to suffixes of architectures.
var tasks = []struct {
	name    string
	endings []string
}{
	{"causal_lm", []string{"ForCausalLM", "LMHeadModel"}},
	{"masked_lm", []string{"ForMaskedLM"}},
	{"sequence_classification", []string{"ForSequenceClassification"}},
}

// Tasks returns the names that ForTask accepts.
func Tasks() []string {
	var names []string
	for _, t := range tasks {
		names = append(names, t.name)
	}
	return names
}

// ErrTask is wrapped by errors about tasks that a family does not support.
var ErrTask = errors.New("its family has no architecture for task")

// ForTask returns the configuration with the architecture of its family for a task: for
// sequence_classification, BertForMaskedLM becomes BertForSequenceClassification. An empty task
// keeps the architecture; a base model becomes that of its only task.
func (c *Config) ForTask(task string) (*Config, error) {
	var head struct {
		Architectures []string `json:"architectures"`
		ModelType     string   `json:"model_type"`
	}
	if err := Decode(c.JSON, &head); err != nil {
		return nil, fmt.Errorf("model: %s: %w", c.Path, err)
	}
	stem, now := strings.ReplaceAll(head.ModelType, "_", ""), ""
	if len(head.Architectures) > 0 {
		now = head.Architectures[0]
		stem = stemOf(now)
	}
	if task == "" {
		return c.forBase(now, stem)
	}
	for _, t := range tasks {
		if t.name != task {
			continue
		}
		switch names := c.Family.architectures(stem, t.endings); {
		case len(names) == 0:
			return nil, fault.Try(fmt.Errorf("model: %s: %w %s. supported: %s", c.Path, ErrTask, task, strings.Join(c.Family.Architectures, ", ")), "a model of one of these, or another model.task")
		case slices.Contains(names, now):
			return c, nil
		default:
			return c.With(map[string]any{"architectures": names[:1]})
		}
	}
	return nil, fmt.Errorf("model: task %q is not one of %s", task, strings.Join(Tasks(), ", "))
}

// forBase replaces a base architecture by the only one with a head.
func (c *Config) forBase(now, stem string) (*Config, error) {
	if !slices.Contains(c.Family.Bases, now) {
		return c, nil
	}
	var names, could []string
	for _, t := range tasks {
		if found := c.Family.architectures(stem, t.endings); len(found) > 0 {
			names, could = append(names, found...), append(could, t.name)
		}
	}
	if len(names) != 1 {
		return nil, fault.Try(fmt.Errorf("model: %s: %s can be trained for %s", c.Path, now, strings.Join(could, " and ")), "%s", fault.Set("model.task", could[0]))
	}
	return c.With(map[string]any{"architectures": names})
}

// architectures returns the family's architectures with this stem (in any case) and one of the
// endings.
func (f Family) architectures(stem string, endings []string) []string {
	var names []string
	for _, ending := range endings {
		for _, a := range f.Architectures {
			if s, ok := strings.CutSuffix(a, ending); ok && strings.EqualFold(s, stem) {
				names = append(names, a)
			}
		}
	}
	return names
}

// stemOf returns an architecture's prefix: Bert for BertForMaskedLM.
func stemOf(architecture string) string {
	for _, end := range []string{"For", "LMHeadModel", "Model"} {
		if i := strings.LastIndex(architecture, end); i > 0 {
			return architecture[:i]
		}
	}
	return architecture
}
