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

// card is run.json: a run and its starts.
type card struct {
	path string

	Schema     string `json:"schema"`
	ID         string `json:"id"`
	Name       string `json:"name"`
	start             // the latest start
	Parameters int64  `json:"parameters"`
	// Earlier are the starts before --resume auto, in order.
	Earlier []start `json:"earlier_starts,omitempty"`
}

// start is one start of a run. A nil Ended means that it still runs or was killed.
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
	Job      string     `json:"job,omitempty"` // the launcher's id of the job
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
	c := &card{
		path: filepath.Join(dir, rundir.Identity), Schema: "trireme.run/1", ID: j.run.ID, Name: j.cfg.Name, Parameters: j.summary.Parameters,
		start: start{
			Version: readVersion().Version, Command: os.Args, Started: time.Now().UTC(),
			World: ranks, Strategy: j.summary.Strategy, Device: string(j.cfg.Device.Name), Steps: j.summary.Steps, Job: j.restart.job,
		},
	}
	if before, err := readCard(dir); err == nil && (before.ID == c.ID || before.ID == "") && !before.Started.IsZero() {
		c.Earlier = append(before.Earlier, before.start)
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
	b, err := json.MarshalIndent(c, "", "  ")
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
