package foreign

import (
	"fmt"

	"trireme/internal/conf"
	"trireme/train"
)

// Compare reports all training arguments that contradict the file, as DeepSpeed's integrations do.
func (f *File) Compare(cfg train.Config, origins conf.Origins) error {
	if len(f.Fixed) == 0 {
		return nil
	}
	alone, _ := conf.Load(train.Default(), f.Source) // its errors are reported already
	var problems conf.Errors
	own := map[conf.Assignment]bool{}
	for _, a := range f.Assignments {
		own[conf.Assignment{Path: a.Path, Where: a.Where}] = true
	}
	seen := map[string]bool{}
	for _, a := range f.Fixed {
		if seen[a.Path] || own[conf.Assignment{Path: a.Path, Where: origins[a.Path]}] {
			continue
		}
		seen[a.Path] = true
		theirs, given := conf.Get(alone.Value, a.Path), conf.Get(cfg, a.Path)
		if theirs != given {
			problems = append(problems, conf.Problem{Where: a.Where, Path: a.Key,
				Text: fmt.Sprintf("is %s in this file, but %s sets %s to %s. try: \"auto\" in the file, or without %[2]s", theirs, origins[a.Path], a.Path, given)})
		}
	}
	if len(problems) > 0 {
		return problems
	}
	return nil
}
