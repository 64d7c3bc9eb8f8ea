package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"trireme/internal/durable"
	"trireme/internal/rundir"
)

// card is run.json: which run it is, and its starts.
type card struct {
	path string

	Schema     string `json:"schema"`
	ID         string `json:"id"`
	Name       string `json:"name"`
	start             // the latest
	Parameters int64  `json:"parameters"`
	// Earlier are the starts that --resume auto has followed, the first one first.
	Earlier []start `json:"earlier_starts,omitempty"`
}

// start is what was run, when, and how it ended. One that has no end is under way or was killed.
type start struct {
	Version  string     `json:"version"`
	Command  []string   `json:"command"`
	Started  time.Time  `json:"started"`
	Ended    *time.Time `json:"ended,omitempty"`
	Exit     *int       `json:"exit,omitempty"`
	World    int        `json:"world"`
	Strategy string     `json:"strategy"`
	Device   string     `json:"device"`
	Steps    int        `json:"steps"`
}

// openCard writes what describes the run into its directory: run.json and, of a new run, what
// keepConfig does. What a killed process has left of them goes away.
func (j *job) openCard(ranks int) (*card, error) {
	dir := j.cfg.OutputDir
	final := filepath.Join(dir, rundir.FinalModel)
	if st, err := os.Stat(final); err == nil && !st.IsDir() {
		return nil, usage(final+" is no directory, and the model is to go there at the end", "another --output_dir, or move the file")
	}
	if err := durable.Sweep(dir); err != nil {
		return nil, outputError(err)
	}
	if _, err := os.Stat(filepath.Join(dir, rundir.Config)); err != nil || j.cfg.Resume != "auto" {
		if err := j.keepConfig(); err != nil {
			return nil, err
		}
	}
	c := &card{
		path: filepath.Join(dir, rundir.Identity), Schema: "trireme.run/1", ID: j.run.ID, Name: j.cfg.Name, Parameters: j.summary.Parameters,
		start: start{
			Version: readVersion().Version, Command: os.Args, Started: time.Now().UTC(),
			World: ranks, Strategy: j.summary.Strategy, Device: j.cfg.Device.Name, Steps: j.summary.Steps,
		},
	}
	if before, err := readCard(dir); err == nil && (before.ID == c.ID || before.ID == "") && !before.Started.IsZero() {
		c.Earlier = append(before.Earlier, before.start)
	}
	return c, c.write()
}

// keepConfig writes the configuration, and the file of another program that it came from. A run that
// goes on does so when it makes steps: until then, its model is of the configuration that is there.
func (j *job) keepConfig() error {
	dir := j.cfg.OutputDir
	text := runMark + j.run.ID + "\n" + j.resolved
	if err := durable.WriteFile(filepath.Join(dir, rundir.Config), []byte(text)); err != nil {
		return outputError(err)
	}
	return outputError(j.keepSource(dir))
}

// keepSource keeps a copy of another program's file beside config.yaml: source.json, say.
func (j *job) keepSource(dir string) error {
	if j.file == nil || j.file.Text == "" {
		return nil
	}
	ext := strings.ToLower(filepath.Ext(j.file.Name))
	if ext != ".json" && ext != ".yml" {
		ext = ".yaml"
	}
	return durable.WriteFile(filepath.Join(dir, rundir.Source+ext), []byte(j.file.Text))
}

// close notes how the run ended.
func (c *card) close(exit int) error {
	now := time.Now().UTC()
	c.Ended, c.Exit = &now, &exit
	return c.write()
}

// write replaces the file.
func (c *card) write() error {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", rundir.Identity, err)
	}
	return outputError(durable.WriteFile(c.path, append(b, '\n')))
}

// outputError names the key of the directory that something could not be written to.
func outputError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("output_dir: %w", err)
}
