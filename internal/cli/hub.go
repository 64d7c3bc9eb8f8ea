package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"trireme/data"
	"trireme/hub"
	"trireme/internal/conf"
	"trireme/internal/objectstore"
	"trireme/internal/rundir"
	"trireme/internal/view"
	"trireme/monitor"
	"trireme/rendezvous"
	"trireme/train"
)

// resolvedVar passes resolved names to workers, so that they contact no server and use the same files.
const resolvedVar = "TRIREME_RESOLVED"

// resolved is a key whose value is a name on the hub or a URL in an object store.
type resolved struct {
	Key  string `json:"key"`
	Name string `json:"name"` // with the commit of a hub; "" if the user gave none
	Path string `json:"path"` // local
}

// locate replaces names on the hub and URLs in object stores by paths in their caches, and fetches what is missing. The
// configuration as text keeps the names, with commits.
func (j *job) locate(c context.Context, env rendezvous.Env, stderr io.Writer) error {
	var found []resolved
	if text, ok := os.LookupEnv(resolvedVar); ok {
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			return fmt.Errorf("%s: %w", resolvedVar, err)
		}
	} else {
		if env.LocalRank > 0 {
			stderr = io.Discard // local rank 0 fetches and shows progress
		}
		var err error
		if found, err = j.find(c, stderr); err != nil {
			return err
		}
	}
	j.located = found
	for _, r := range found {
		*j.keyValue(r.Key) = r.Path
	}
	j.dropFileDefaults()
	if !j.cfg.Model.RandomWeights {
		if err := checkWeights(j.cfg.Model.Path); err != nil {
			return err
		}
	}
	return j.print()
}

// print sets j.resolved to the configuration as text, with names instead of local paths.
func (j *job) print() error {
	for _, r := range j.located {
		*j.keyValue(r.Key) = r.Name
	}
	var text strings.Builder
	err := conf.Print(&text, j.cfg, nil)
	j.resolved = text.String()
	for _, r := range j.located {
		*j.keyValue(r.Key) = r.Path
	}
	return err
}

// keyValue returns the value of a key that may be a name on the hub.
func (j *job) keyValue(key string) *string {
	switch key {
	case "data.path":
		return &j.cfg.Data.Path
	case "data.eval_path":
		return &j.cfg.Data.EvalPath
	case "data.tokenizer":
		return &j.cfg.Data.Tokenizer
	}
	return &j.cfg.Model.Path
}

// named returns the user's value of a key, with the commit of a name on the hub.
func (j *job) named(key string) string {
	for _, r := range j.located {
		if r.Key == key {
			return r.Name
		}
	}
	return *j.keyValue(key)
}

func (j *job) workerEnv() ([]string, error) {
	env := os.Environ()
	for name, v := range map[string]any{resolvedVar: j.located, runVar: j.run} {
		b, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		env = append(env, name+"="+string(b))
	}
	if j.piped != "" {
		env = append(env, pipedVar+"="+j.piped)
	}
	return env, nil
}

func (j *job) find(ctx context.Context, stderr io.Writer) (found []resolved, err error) {
	l := &locator{stderr: stderr, origins: j.origins}
	j.pinCommits(stderr)
	add := func(key string, s *hub.Snapshot) {
		if err == nil && s != nil {
			found = append(found, resolved{key, s.Pinned(), s.Dir})
		}
	}
	s, err := l.model(ctx, "model.path", j.cfg.Model.Path, !j.cfg.Model.RandomWeights)
	add("model.path", s)
	if err == nil && (j.recipe == nil || j.cfg.Data.Tokenizer != j.recipe.Tokenizer) { // the recipe makes it later
		s, err = l.tokenizer(ctx, "data.tokenizer", j.cfg.Data.Tokenizer)
		add("data.tokenizer", s)
	}
	if err == nil && j.cfg.Data.Format != data.FormatGoSource {
		var more []resolved
		more, err = l.datasets(ctx, j.cfg.Data)
		found = append(found, more...)
	}
	return found, err
}

// pinCommits sets the commits of a resumed run, whose rows depend on them.
func (j *job) pinCommits(stderr io.Writer) {
	if j.cfg.Resume == "" || j.cfg.Resume == "none" {
		return
	}
	path := filepath.Join(j.cfg.OutputDir, rundir.Config)
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return // no run
	}
	kept, err := conf.Load(train.Default(), conf.File(path))
	if err != nil {
		return // reported when the run is read
	}
	before := &job{cfg: kept.Value}
	for _, key := range []string{"model.path", "data.tokenizer", "data.path", "data.eval_path"} {
		now, ok := hub.ParseDataset(*j.keyValue(key))
		then, pinned := hub.ParseDataset(*before.keyValue(key))
		if !ok || now.Revision != "" || !pinned || !then.Pinned() || now.ID != then.ID || now.Path != then.Path || exists(now.String()) {
			continue
		}
		fmt.Fprintf(stderr, "%s: commit %s, as in the run in %s\n", now, then.Revision, j.cfg.OutputDir)
		*j.keyValue(key) = then.String()
	}
}

// locator resolves names in the Hugging Face cache and on the hub, and URLs in object stores.
type locator struct {
	stderr  io.Writer
	origins conf.Origins // of the keys; nil for flags
	client  *hub.Client
}

// model returns the snapshot of a model, or nil for a directory.
func (l *locator) model(ctx context.Context, key, name string, weights bool) (*hub.Snapshot, error) {
	if name == "" || exists(name) {
		return nil, nil
	}
	if isPath(hub.ParseModel(name)) && !objectstore.IsURL(name) {
		return nil, missingPath(l.origins[key], name, "model's directory", hub.ParseModel)
	}
	return l.fetch(ctx, key, name, "directory", func(ctx context.Context, c hub.Client) (*hub.Snapshot, error) {
		if !weights {
			return c.Config(ctx, name)
		}
		return c.Model(ctx, name)
	})
}

// tokenizer returns the snapshot of a model's tokenizer, or nil for a directory.
func (l *locator) tokenizer(ctx context.Context, key, name string) (*hub.Snapshot, error) {
	if name == "" || exists(name) {
		return nil, nil
	}
	if isPath(hub.ParseModel(name)) && !objectstore.IsURL(name) {
		return nil, missingPath(l.origins[key], name, "tokenizer's directory or file", hub.ParseModel)
	}
	return l.fetch(ctx, key, name, "file or directory", func(ctx context.Context, c hub.Client) (*hub.Snapshot, error) { return c.Tokenizer(ctx, name) })
}

// datasets resolves data.path and data.eval_path. Without settings for evaluation, the validation split
// or else the test split is the evaluation set.
func (l *locator) datasets(ctx context.Context, c data.Config) (found []resolved, err error) {
	if c.Path == "" {
		return nil, nil
	}
	train, err := l.dataset(ctx, "data.path", c.Path, "train")
	if err != nil {
		return nil, err
	}
	if train != nil {
		if found, err = addFiles(found, "data.path", train, true); err != nil {
			return nil, err
		}
	}
	switch {
	case c.EvalPath != "":
		eval, err := l.dataset(ctx, "data.eval_path", c.EvalPath, "validation", "test", "train")
		if err != nil || eval == nil {
			return found, err
		}
		return addFiles(found, "data.eval_path", eval, true)
	case c.EvalFraction == 0 && train != nil && train.HasSplit("validation", "test"):
		eval, err := l.dataset(ctx, "data.path", c.Path, "validation", "test")
		if err != nil {
			return nil, err
		}
		return addFiles(found, "data.eval_path", eval, false)
	}
	return found, nil
}

// addFiles adds the files of a snapshot as the value of a key.
func addFiles(found []resolved, key string, s *hub.Snapshot, named bool) ([]resolved, error) {
	pattern, err := s.Pattern()
	if err != nil {
		return nil, hubError(s.Name.String(), "", "", err)
	}
	r := resolved{Key: key, Path: pattern}
	if named {
		r.Name = s.Pinned()
	}
	return append(found, r), nil
}

// dataset returns the snapshot of a data set, or nil for local files and patterns.
func (l *locator) dataset(ctx context.Context, key, name string, splits ...string) (*hub.Snapshot, error) {
	switch n, ok := hub.ParseDataset(name); {
	case exists(name):
		return nil, nil
	case objectstore.IsURL(name), !isPath(n, ok):
	case strings.ContainsAny(name, "*?["):
		return nil, nil
	default:
		return nil, missingPath(l.origins[key], name, "file or folder", hub.ParseDataset)
	}
	return l.fetch(ctx, key, name, "file or folder", func(ctx context.Context, c hub.Client) (*hub.Snapshot, error) {
		return c.Dataset(ctx, name, splits...)
	})
}

// drawable reports whether f is a terminal that can show a progress bar.
func drawable(f *os.File) bool {
	_, ok := view.OpenTerminal(f, os.LookupEnv)
	_, lines, err := term.GetSize(int(f.Fd()))
	return ok && err == nil && lines > 0
}

// fetch calls ask until a signal stops it.
func (l *locator) fetch(ctx context.Context, key, name, kind string, ask func(context.Context, hub.Client) (*hub.Snapshot, error)) (*hub.Snapshot, error) {
	where := l.origins[key]
	if l.client == nil {
		c, err := hub.FromEnv(os.LookupEnv)
		if err != nil {
			return nil, hubError(name, kind, where, err)
		}
		c.Progress = l.stderr
		if f, ok := monitor.UnderlyingFile(l.stderr); ok && drawable(f) {
			c.Progress, c.Terminal = f, true
		}
		l.client = &c
	}
	var s *hub.Snapshot
	err := untilStopped(ctx, "fetching "+name, "downloaded files are kept; the same command continues", func(ctx context.Context) (err error) {
		s, err = ask(ctx, *l.client)
		return err
	})
	var stopped *Exit
	switch {
	case errors.As(err, &stopped):
		return nil, err
	case err != nil:
		return nil, hubError(name, kind, where, err)
	}
	return s, nil
}

// hubError adds to an error of the hub that the name is no local path either, which may be a typo.
func hubError(name, kind, where string, err error) error {
	var e *hub.Error
	if !errors.As(err, &e) {
		return err
	}
	what, code := e.Text, CodeFailed
	if objectstore.IsURL(name) {
		kind = "" // nothing else
	}
	switch {
	case errors.Is(err, hub.ErrAuth):
		code = CodeAuth
	case errors.Is(err, hub.ErrNotFound), errors.Is(err, hub.ErrNoConnection), e.Kind == nil:
		code = CodeUsage
	}
	if kind != "" && (code == CodeAuth || errors.Is(err, hub.ErrNotFound) || errors.Is(err, hub.ErrUnreachable)) {
		near := nearbyPath(name)
		if near != "" {
			near = fmt.Sprintf(" (did you mean %s?)", near)
		}
		what = fmt.Sprintf("%s is not a local %s%s, and %s", name, kind, near, e.Text)
	}
	return &Exit{code, &Problem{Text: withOrigin(where, what), Try: e.Try, Err: err}}
}
