package foreign

import (
	"fmt"
	"slices"
	"strings"

	"trireme/internal/conf"
)

// LayerClass is a layer class of transformers in a file, such as Qwen2DecoderLayer.
type LayerClass struct {
	Where, Key string
	Name       string
}

// layerClasses reads a comma-separated list of classes for FSDP to wrap.
func layerClasses(r *reader, k key) {
	if k.Kind == conf.Null || !r.checkValue(k, textual) {
		return
	}
	if policy, ok := r.find("fsdp_config", "fsdp_auto_wrap_policy"); ok && !strings.HasPrefix(strings.ToUpper(policy.Text), "TRANSFORMER") {
		return // other policies use no classes
	}
	for name := range strings.SplitSeq(k.Text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			r.classes = append(r.classes, LayerClass{Where: k.where, Key: k.path, Name: name})
		}
	}
}

// CheckLayers refuses layer classes that the model lacks, as Accelerate does, and notes classes that
// are no layer. modules are the model's classes, the layer's first; without any it checks nothing.
func (f *File) CheckLayers(modules []string) error {
	var problems conf.Errors
	if len(modules) == 0 {
		return nil
	}
	for _, c := range f.LayerClasses {
		switch i := slices.Index(modules, c.Name); {
		case i > 0:
			f.Notes = append(f.Notes, Note{Where: c.Where, Key: c.Key, Value: c.Name, Effect: "has no effect: units are the embeddings, each " + modules[0] + ", and the head"})
		case i < 0:
			problems = append(problems, conf.Problem{Where: c.Where, Path: c.Key, Text: fmt.Sprintf("this model has no %s; its layers are %s. try: %s", c.Name, modules[0], modules[0])})
		}
	}
	if len(problems) > 0 {
		return problems
	}
	return nil
}
