package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"trireme/checkpoint"
	"trireme/device"
	"trireme/hub"
	"trireme/internal/conf"
	"trireme/internal/objectstore"
	"trireme/internal/rundir"
	"trireme/model"
	"trireme/recipes"
	"trireme/train"
)

// modelSource is a trained model: a Hugging Face directory, or a checkpoint with the configuration of
// its run.
type modelSource struct {
	dir        string       // with config.json, weights and perhaps a tokenizer; empty: none
	run        string       // the run's directory, if --model is one
	checkpoint string       // instead of dir
	config     string       // the checkpoint's configuration, as text
	cfg        train.Config // parsed from config by resolveNames
}

// findModel finds the model in a directory: the directory itself or, for a run, its final model or else
// its newest checkpoint, which it prints. Other names stay unchanged.
func findModel(name string, stderr io.Writer) (*modelSource, error) {
	in := func(parts ...string) bool { return exists(filepath.Join(append([]string{name}, parts...)...)) }
	if objectstore.IsURL(name) {
		if err := checkDir(name); err != nil {
			return nil, err
		}
	} else if st, err := os.Stat(name); err != nil || !st.IsDir() || in("config.json") {
		return &modelSource{dir: name}, nil
	}
	if in(rundir.FinalModel, "config.json") {
		s := &modelSource{dir: filepath.Join(name, rundir.FinalModel), run: name}
		_, err := fmt.Fprintf(stderr, "using %s\n", s.dir)
		return s, err
	}
	if checkpoint.Is(name) {
		return openSource(&modelSource{checkpoint: name})
	}
	dir, isRun := checkpointsIn(name)
	if !checkpoint.Exists(dir) {
		if objectstore.IsURL(name) {
			if names, err := checkpoint.Names(name); err != nil || !slices.Contains(names, "config.json") {
				return nil, usage(name+" is neither a checkpoint nor a model, and contains no checkpoint", "the directory of config.json, or of checkpoints")
			}
			return &modelSource{dir: name}, nil // resolveNames fetches it
		}
		if isRun {
			return nil, usage(name+" is a run without a final_model or a checkpoint", "trireme train --resume auto --output_dir "+name)
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

// checkpointsIn returns the directory of the checkpoints of a run, or that in another directory, or else the directory
// itself.
func checkpointsIn(name string) (dir string, isRun bool) {
	if objectstore.IsURL(name) {
		if names, _ := checkpoint.Names(name); slices.Contains(names, rundir.Checkpoints) { // List reports an error
			return objectstore.Join(name, rundir.Checkpoints), false
		}
		return name, false
	}
	at := (checkpoint.Config{}).Directory(name)
	if isRun = exists(filepath.Join(name, rundir.Identity)); isRun {
		if c, err := conf.Load(train.Default(), conf.File(filepath.Join(name, rundir.Config))); err == nil {
			at = c.Value.Checkpoint.Directory(name)
		}
		return at, true
	}
	if exists(at) {
		return at, false
	}
	return name, false
}

// openSource reads the configuration in a checkpoint.
func openSource(s *modelSource) (*modelSource, error) {
	c, err := checkpoint.Open(s.checkpoint)
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	defer c.Close()
	if s.config = c.Meta().Config; s.config == "" {
		return nil, usage(s.checkpoint+" contains no configuration of the model", "")
	}
	return s, nil
}

// resolveNames parses a checkpoint's configuration and resolves its names on the hub, or fetches a model from an object
// store. tokenizer, if not
// empty, is the directory of another tokenizer.
func (s *modelSource) resolveNames(ctx context.Context, l *locator, tokenizer string) error {
	if s.checkpoint == "" {
		if objectstore.IsURL(s.dir) {
			m, err := l.model(ctx, "", s.dir, true)
			if err != nil {
				return err
			}
			s.dir = m.Dir
		}
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
		if p.path == "" || exists(p.path) || objectstore.IsURL(p.path) && p.key != "model.config" || ok && n.Pinned() || isRecipe && p.key == "model.config" {
			continue
		}
		return &Exit{CodeUsage, &Problem{
			Text: fmt.Sprintf("%s: %s in its configuration is %s, which does not exist here", s.checkpoint, p.key, p.path), Try: "the same command in the directory where the run was started",
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

func (s *modelSource) load(ctx context.Context, d device.Config, as train.WeightType) (*train.LoadedModel, error) {
	if s.checkpoint == "" {
		if err := checkWeights(s.dir); err != nil {
			return nil, err
		}
		return train.LoadModel(families, s.dir, d, as)
	}
	config, err := modelOf(s.cfg)
	if err != nil {
		return nil, &Exit{CodeUsage, fmt.Errorf("%s: the model of its configuration: %w", s.checkpoint, err)}
	}
	return train.LoadCheckpoint(ctx, config, s.checkpoint, d, as)
}

// tokenizer returns the directory of the model's tokenizer.
func (s *modelSource) tokenizer() string {
	if s.checkpoint != "" && s.cfg.Data.Tokenizer != "" {
		return s.cfg.Data.Tokenizer
	}
	return s.files()
}

// chatTemplate returns data.chat_template of the run; empty: the tokenizer's own.
func (s *modelSource) chatTemplate() (string, error) {
	if s.run == "" {
		return s.cfg.Data.ChatTemplate, nil
	}
	c, err := conf.Load(train.Default(), conf.File(filepath.Join(s.run, rundir.Config)))
	return c.Value.Data.ChatTemplate, err
}

// files returns the directory with config.json.
func (s *modelSource) files() string {
	if s.checkpoint != "" {
		return s.cfg.Model.Path
	}
	return s.dir
}

func modelOf(cfg train.Config) (*model.Config, error) {
	if r := recipeOf(cfg); r != nil {
		return families.ParseConfig(r.Name, []byte(r.Model))
	}
	return cfg.ReadModel(families)
}

// recipeOf returns the recipe whose model a configuration names, or nil.
func recipeOf(cfg train.Config) *recipes.Recipe {
	if cfg.Model.Config != recipes.ModelName {
		return nil
	}
	return recipes.GoSource()
}
