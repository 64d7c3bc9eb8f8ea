package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"trireme/internal/conf"
	"trireme/internal/foreign"
	"trireme/model"
	"trireme/rendezvous"
)

// readFile reads --config, whoever's file it is. What is wrong with the file is told with the
// rest of the configuration.
func (f *trainFlags) readFile(env rendezvous.Env) (*foreign.File, conf.Source, error) {
	if f.format != "" {
		if err := oneOf("config_format", f.format, foreign.Formats()...); err != nil {
			return nil, conf.Source{}, err
		}
	}
	environ := environment()
	o := foreign.Options{
		Mode: f.mode, Format: foreign.Format(f.format), Ranks: int(f.nproc), Launched: env.Launched, Planned: f.dataless,
		Model:     f.modelName != "" || sets(f.sets, "model.path") || sets(f.sets, "model.config") || environ["TRIREME_MODEL_PATH"] != "",
		OutputDir: f.outputDir != "" || sets(f.sets, "output_dir") || environ["TRIREME_OUTPUT_DIR"] != "",
	}
	if env.Launched {
		o.Ranks = env.WorldSize
	}
	text, err := conf.Read(f.config)
	var file *foreign.File
	if err == nil {
		file, err = foreign.Read(f.config, text, o)
	}
	var problems conf.Errors
	switch {
	case errors.As(err, &problems):
		return nil, conf.Unread(problems), nil
	case err != nil:
		return nil, conf.Source{}, err
	}
	return file, file.Source, nil
}

// settleTask lets go of a task that the file's program would have trained, where the model is
// not of a family that has it.
func (j *job) settleTask() {
	task := j.origins["model.task"]
	if j.file == nil || j.cfg.Model.Task == "" || !strings.HasPrefix(task, j.file.Name+" (") {
		return
	}
	if _, err := j.cfg.Model.Read(families); errors.Is(err, model.ErrTask) {
		j.file.Notes = append(j.file.Notes, foreign.Note{Where: task, Key: "model.task", Value: j.cfg.Model.Task, What: "has no effect: the model has no such head, and is trained as its config.json says"})
		j.cfg.Model.Task, j.origins["model.task"] = "", "default"
	}
}

// warn says which keys of the file change nothing.
func (j *job) warn(w io.Writer) error {
	if j.file == nil {
		return nil
	}
	_, err := fmt.Fprint(w, j.file.Warning())
	return err
}
