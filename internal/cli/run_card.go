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

// card is run.json of this run.
type card struct {
	path string
	rundir.Card
}

// openCard writes run.json and, for a new run, the configuration. It removes temporary files of a
// killed process.
func (j *job) openCard(ranks int) (*card, error) {
	dir := j.cfg.OutputDir
	final := filepath.Join(dir, rundir.FinalModel)
	if st, err := os.Stat(final); err == nil && !st.IsDir() {
		return nil, usage(final+" is a file, but the final model is written to this directory", "another --output_dir, or move the file")
	}
	if err := durable.Sweep(dir); err != nil {
		return nil, outputError(err)
	}
	if _, err := os.Stat(filepath.Join(dir, rundir.Config)); err != nil || !j.continues() {
		if err := j.keepConfig(); err != nil {
			return nil, err
		}
	}
	c := &card{filepath.Join(dir, rundir.Identity), rundir.Card{
		Schema: "trireme.run/1", ID: j.run.ID, Name: j.cfg.Name, Parameters: j.summary.Parameters,
		Start: rundir.Start{
			Version: readVersion().Version, Command: os.Args, Started: time.Now().UTC(),
			World: ranks, Strategy: j.summary.Strategy, Device: string(j.cfg.Device.Name), Steps: j.summary.Steps, Job: j.restart.job, Planned: j.planned,
		},
	}}
	if before, err := rundir.ReadCard(dir); err == nil && (before.ID == c.ID || before.ID == "") && !before.Started.IsZero() {
		c.Earlier = append(before.Earlier, before.Start)
	}
	return c, c.write()
}

// keepConfig writes config.yaml and a copy of another program's file. A resumed run calls it at its
// first step: until then the old configuration describes its model.
func (j *job) keepConfig() error {
	dir := j.cfg.OutputDir
	text := runMark + j.run.ID + "\n" + j.resolved
	if err := durable.WriteFile(filepath.Join(dir, rundir.Config), []byte(text)); err != nil {
		return outputError(err)
	}
	return outputError(j.keepSource(dir))
}

// keepSource copies another program's file to source.json or source.yaml.
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

// close records the end of the start.
func (c *card) close(exit int) error {
	now := time.Now().UTC()
	c.Ended, c.Exit = &now, &exit
	return c.write()
}

func (c *card) write() error {
	b, err := json.MarshalIndent(c.Card, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", rundir.Identity, err)
	}
	return outputError(durable.WriteFile(c.path, append(b, '\n')))
}

// outputError adds the key to an error of writing to the output directory.
func outputError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("output_dir: %w", err)
}
