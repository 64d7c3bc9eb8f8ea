package foreign_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"trireme/internal/conf"
	"trireme/internal/foreign"
	"trireme/train"
)

// FuzzRead checks that any text is accepted or refused with a conf.Errors, and that an accepted text loads
// or fails with a conf.Errors.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/files/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text), "", "")
	}
	f.Add("training: {micro_batch_size: 2}\n", "ddp", "native")
	f.Add("{ // rows\n \"train_batch_size\": 8 /* x */}", "", "")
	f.Add("[job]\nx = 1\n", "", "")
	f.Add("training:\nmodel_name: m\n<<: *x\n", "fsdp", "")
	f.Add(`{"train_batch_size": 9223372036854775807, "train_micro_batch_size_per_gpu": 4611686018427387904, "gradient_accumulation_steps": 4}`, "deepspeed", "deepspeed")
	f.Fuzz(func(t *testing.T, text, mode, format string) {
		var problems conf.Errors
		known := format == ""
		for _, name := range foreign.Formats() {
			known = known || name == format
		}
		if !known {
			return
		}
		file, err := foreign.Read("x", text, foreign.Options{Mode: mode, Format: foreign.Format(format), Ranks: 2})
		if err != nil {
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		loaded, err := conf.Load(train.Default(), file.Source)
		if err != nil && !errors.As(err, &problems) {
			t.Fatalf("%T: %v", err, err)
		}
		_ = file.Warning()
		_ = file.Compare(loaded.Value, loaded.Origins)
	})
}
