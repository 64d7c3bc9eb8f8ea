package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"trireme/checkpoint"
	"trireme/internal/convert"
	"trireme/internal/objectstore"
	"trireme/monitor"
)

// verified is the result for one checkpoint or model.
type verified struct {
	Path      string   `json:"path"`
	OK        bool     `json:"ok"`
	Checksums bool     `json:"checksums"` // of the tensors: false if the format has none, and only what it says was compared
	Bytes     int64    `json:"bytes"`     // of tensors that were read
	Error     string   `json:"error"`     // of the commit record, the manifest or a header; "" if they are valid
	Damage    []damage `json:"damage"`
}

// damage is a range of a file with other bytes than the saved ones.
type damage struct {
	File   string `json:"file"`
	Tensor string `json:"tensor"`
	Offset int64  `json:"offset"` // -1, with 0 bytes, in formats of other programs
	Bytes  int64  `json:"bytes"`
	Error  string `json:"error"`
}

func newCheckpointVerify() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify DIR|FILE...",
		Short: "read all bytes of checkpoints and models and compare them with their checksums",
		Long: `Read all bytes of checkpoints, or of all checkpoints of runs, and compare them with the checksums in
their manifests. Models that this program exported or converted have checksums too, and so have files
of torch.save, distributed and DeepSpeed checkpoints. Other safetensors and GGUF files have none: only
what their headers say is compared. The exit code is 3 if any is damaged or incomplete.`,
		Example: `  trireme checkpoint verify runs/sft-1
  trireme checkpoint verify runs/sft-1/checkpoints/step-200 --json
  trireme checkpoint verify runs/sft-1/final_model model.gguf`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("verify needs checkpoints, or the directories of runs", "trireme checkpoint ls")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			results, err := verifyAll(c.Context(), args)
			if err != nil {
				return err
			}
			bad := 0
			for _, r := range results {
				if !r.OK {
					bad++
				}
			}
			if asJSON {
				err = writeJSON(c.OutOrStdout(), struct {
					Schema      string     `json:"schema"`
					OK          bool       `json:"ok"`
					Checkpoints []verified `json:"checkpoints"`
				}{"trireme.checkpoint.verify/1", bad == 0, results})
			} else {
				err = printVerified(c.OutOrStdout(), results)
			}
			if err == nil && bad > 0 {
				err = &Exit{CodeNo, fmt.Errorf("%d of %s damaged or incomplete", bad, number(int64(len(results)), "checkpoint"))}
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func verifyAll(ctx context.Context, args []string) ([]verified, error) {
	results := []verified{}
	for _, name := range args {
		found, err := candidates(name)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			r, err := verifyOther(ctx, name)
			if err != nil {
				return nil, err
			}
			results = append(results, r)
		}
		for _, f := range found {
			r, err := verifyOne(ctx, f)
			if err != nil {
				return nil, err
			}
			results = append(results, r)
		}
	}
	return results, nil
}

// candidates lists the checkpoints of this program that a path means, none if it is something else.
func candidates(name string) ([]checkpoint.Candidate, error) {
	if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() {
		return nil, nil
	}
	if err := checkDir(name); err != nil {
		return nil, err
	}
	if checkpoint.Is(name) {
		return []checkpoint.Candidate{{Path: objectstore.Clean(name)}}, nil
	}
	dir, _ := checkpointsIn(name)
	found, err := checkpoint.List(dir)
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	if len(found) == 0 && objectstore.IsURL(name) {
		return nil, noneIn(name)
	}
	return found, nil
}

func noneIn(name string) error {
	return usage(name+" is not a checkpoint and contains none", "trireme checkpoint ls")
}

// verifyOther verifies a model, or a checkpoint of another program.
func verifyOther(ctx context.Context, name string) (verified, error) {
	r := verified{Path: name, Damage: []damage{}}
	v, err := convert.Verify(ctx, name)
	switch {
	case ctx.Err() != nil:
		return r, err
	case errors.Is(err, convert.ErrUnknown):
		return r, noneIn(name)
	case err != nil:
		r.Error = err.Error()
		return r, nil
	}
	r.OK, r.Checksums, r.Bytes = len(v.Damaged) == 0, !v.Unchecked, v.Bytes
	for _, d := range v.Damaged {
		r.Damage = append(r.Damage, damage{File: name, Tensor: d.Tensor, Offset: -1, Error: d.Err.Error()})
	}
	return r, nil
}

func verifyOne(ctx context.Context, f checkpoint.Candidate) (verified, error) {
	r := verified{Path: f.Path, Checksums: true, Damage: []damage{}}
	c, err := checkpoint.Open(f.Path)
	if err == nil && f.Err != nil { // another step than its name
		err = errors.Join(f.Err, c.Close())
	}
	if err != nil {
		r.Error = err.Error()
		return r, nil
	}
	defer c.Close()
	found, err := c.Verify(ctx, func(done int64) { r.Bytes = done })
	if err != nil {
		return r, err
	}
	r.OK = len(found) == 0
	for _, d := range found {
		r.Damage = append(r.Damage, damage{d.File, d.Tensor, d.Offset, d.Bytes, d.Err.Error()})
	}
	return r, nil
}

// maxDamage is the number of damaged ranges of a checkpoint that are printed.
const maxDamage = 10

func printVerified(w io.Writer, results []verified) error {
	for _, r := range results {
		switch {
		case r.OK && !r.Checksums:
			fmt.Fprintf(w, "%s: readable, %s of tensors, but without checksums\n", r.Path, monitor.Bytes(r.Bytes))
		case r.OK:
			fmt.Fprintf(w, "%s: ok, %s of tensors read\n", r.Path, monitor.Bytes(r.Bytes))
		case r.Error != "":
			fmt.Fprintf(w, "%s\n", monitor.EscapeControl(r.Error))
		}
		for i, d := range r.Damage {
			if i == maxDamage {
				fmt.Fprintf(w, "%s: %d more damaged ranges\n", r.Path, len(r.Damage)-i)
				break
			}
			fmt.Fprintf(w, "%s\n", monitor.EscapeControl(d.Error))
		}
	}
	return nil
}
