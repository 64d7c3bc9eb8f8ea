package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"trireme/checkpoint"
	"trireme/device"
	"trireme/hub"
	"trireme/internal/conf"
	"trireme/internal/rundir"
	"trireme/model"
	"trireme/recipes"
	"trireme/train"
)

// modelSource is what --model names where it is a model that was trained: a Hugging Face directory,
// or a checkpoint, whose run's configuration says what the model is.
type modelSource struct {
	dir        string       // of config.json, weights and perhaps a tokenizer; empty: none
	run        string       // the directory of the run, where --model is one; else empty
	checkpoint string       // in place of dir
	config     string       // the checkpoint's configuration, as text
	cfg        train.Config // of config, once it is settled
}

// findModel finds the model of a directory: the directory itself, or, of a run, its final model or
// else its newest checkpoint, which stderr is told. A name that is nothing here stays as it is.
func findModel(name string, stderr io.Writer) (*modelSource, error) {
	in := func(parts ...string) bool { return exists(filepath.Join(append([]string{name}, parts...)...)) }
	if st, err := os.Stat(name); err != nil || !st.IsDir() || in("config.json") {
		return &modelSource{dir: name}, nil
	}
	if in(rundir.FinalModel, "config.json") {
		s := &modelSource{dir: filepath.Join(name, rundir.FinalModel), run: name}
		_, err := fmt.Fprintf(stderr, "using %s\n", s.dir)
		return s, err
	}
	if in("manifest.json") || in("COMMIT") {
		return openSource(&modelSource{checkpoint: name})
	}
	dir, isRun := name, in(rundir.Identity)
	if isRun {
		c, err := conf.Load(train.Default(), conf.File(filepath.Join(name, rundir.Config)))
		if dir = (checkpoint.Config{}).Directory(name); err == nil {
			dir = c.Value.Checkpoint.Directory(name)
		}
	} else if at := (checkpoint.Config{}).Directory(name); exists(at) {
		dir = at
	}
	if !checkpoint.Exists(dir) {
		if isRun {
			return nil, usage(name+" is a run that has neither a final_model nor a checkpoint yet", "trireme train --resume auto --output_dir "+name)
		}
		return &modelSource{dir: name}, nil
	}
	path, notices, err := checkpoint.Latest(dir, "")
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	for _, n := range notices {
		fmt.Fprintln(stderr, n)
	}
	if _, err := fmt.Fprintf(stderr, "using %s\n", path); err != nil {
		return nil, err
	}
	return openSource(&modelSource{checkpoint: path})
}

// openSource reads the configuration of a checkpoint.
func openSource(s *modelSource) (*modelSource, error) {
	c, err := checkpoint.Open(s.checkpoint)
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	defer c.Close()
	if s.config = c.Meta().Config; s.config == "" {
		return nil, usage(s.checkpoint+" has no configuration: what its model is, is not known", "")
	}
	return s, nil
}

// settle reads a checkpoint's configuration, and finds what its names on the hub are here. tokenizer
// is the directory of another tokenizer than its own; empty for none.
func (s *modelSource) resolveNames(ctx context.Context, l *locator, tokenizer string) error {
	if s.checkpoint == "" {
		return nil
	}
	c, err := conf.Load(train.Default(), conf.Text(s.checkpoint, s.config))
	if err != nil {
		return err
	}
	s.cfg = c.Value
	isRecipe := recipeOf(s.cfg) != nil
	if tokenizer != "" {
		s.cfg.Data.Tokenizer = tokenizer
	}
	for _, p := range []struct{ key, path string }{
		{"model.path", s.cfg.Model.Path}, {"model.config", s.cfg.Model.Config}, {"data.tokenizer", s.cfg.Data.Tokenizer},
	} {
		n, ok := hub.ParseModel(p.path)
		if p.path == "" || exists(p.path) || ok && n.Pinned() || isRecipe && p.key == "model.config" {
			continue
		}
		return &Exit{CodeUsage, &Problem{
			Text: fmt.Sprintf("%s: %s of its configuration is %s, which is not here", s.checkpoint, p.key, p.path), Try: "the same command in the directory where the run was started",
		}}
	}
	m, err := l.model(ctx, "", s.cfg.Model.Path, false)
	if err != nil {
		return err
	}
	if m != nil {
		s.cfg.Model.Path = m.Dir
	}
	t, err := l.tokenizer(ctx, "", s.cfg.Data.Tokenizer)
	if t != nil {
		s.cfg.Data.Tokenizer = t.Dir
	}
	return err
}

// load reads the weights.
func (s *modelSource) load(ctx context.Context, d device.Config) (*train.LoadedModel, error) {
	if s.checkpoint == "" {
		return train.LoadModel(families, s.dir, d)
	}
	config, err := modelOf(s.cfg)
	if err != nil {
		return nil, &Exit{CodeUsage, fmt.Errorf("%s: the model of its configuration: %w", s.checkpoint, err)}
	}
	return train.LoadCheckpoint(ctx, config, s.checkpoint, d)
}

// tokenizer is where the model's own is.
func (s *modelSource) tokenizer() string {
	if s.checkpoint != "" && s.cfg.Data.Tokenizer != "" {
		return s.cfg.Data.Tokenizer
	}
	return s.files()
}

// files is the directory of config.json and its companions.
func (s *modelSource) files() string {
	if s.checkpoint != "" {
		return s.cfg.Model.Path
	}
	return s.dir
}

// modelOf is what the model of a configuration is.
func modelOf(cfg train.Config) (*model.Config, error) {
	if r := recipeOf(cfg); r != nil {
		return families.ParseConfig(r.Name, []byte(r.Model))
	}
	return cfg.ReadModel(families)
}

// recipeOf is the recipe whose model a configuration names; nil for another model.
func recipeOf(cfg train.Config) *recipes.Recipe {
	if cfg.Model.Config != recipes.ModelName {
		return nil
	}
	return recipes.GoSource()
}
