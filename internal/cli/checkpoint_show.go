package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"trireme/checkpoint"
	"trireme/internal/objectstore"
	"trireme/monitor"
)

// tensorInfo describes a tensor of a checkpoint.
type tensorInfo struct {
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
}

func newTensorInfo(t checkpoint.Tensor) tensorInfo {
	return tensorInfo{t.Kind, t.Name, t.DType.String(), append([]int{}, t.Shape...)}
}

func newCheckpointShow() *cobra.Command {
	var asJSON, tensors, digest bool
	c := &cobra.Command{
		Use:   "show DIR",
		Short: "show a checkpoint: step, run, files, tensors and training state",
		Long: `Show a checkpoint, or the newest of a run. --tensors lists all tensors; --json has them too, with the
configuration and the state of the trainer. --digest reads all tensors for the SHA-256 of the state, which is equal for
equal bits of all tensors, in any run and with any ranks, strategy and files.`,
		Example: `  trireme checkpoint show runs/sft-1
  trireme checkpoint show runs/sft-1/checkpoints/step-200 --tensors
  trireme checkpoint show runs/sft-1/checkpoints/step-200 --digest`,
		Args: oneDirectory,
		RunE: func(c *cobra.Command, args []string) error {
			path, ck, err := openCheckpoint(args[0], c.ErrOrStderr())
			if err != nil {
				return err
			}
			defer ck.Close()
			rows, err := listCheckpoints([]string{path})
			if err != nil {
				return err
			}
			row := checkpointRow{Path: path}
			if len(rows) > 0 {
				row = rows[0]
			} else if _, _, err := row.describe(); err != nil { // another directory name than step-N
				return &Exit{CodeUsage, err}
			}
			state := ""
			if digest {
				sum, err := ck.StateDigest(c.Context())
				if err != nil {
					return &Exit{CodeUsage, err}
				}
				state = fmt.Sprintf("%x", sum)
			}
			if asJSON {
				return showJSON(c.OutOrStdout(), row, state, ck)
			}
			return showCheckpoint(c.OutOrStdout(), row, state, ck, tensors)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.Flags().BoolVar(&tensors, "tensors", false, "list all tensors")
	c.Flags().BoolVar(&digest, "digest", false, "read all tensors and print the SHA-256 of the state")
	return c
}

// oneDirectory checks that the argument is one directory.
func oneDirectory(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage(fmt.Sprintf("%s needs one checkpoint, or the directory of a run, not %d", c.CommandPath(), len(args)), "trireme checkpoint ls")
	}
	return nil
}

func showJSON(w io.Writer, row checkpointRow, state string, c *checkpoint.Checkpoint) error {
	type file struct {
		Name  string `json:"name"`
		Bytes int64  `json:"bytes"`
	}
	m := c.Meta()
	out := struct {
		Schema string `json:"schema"`
		checkpointRow
		Files   []file          `json:"files"`
		Tensors []tensorInfo    `json:"tensors"` // in place of their number
		Config  string          `json:"config"`
		State   json.RawMessage `json:"state"`
		Digest  string          `json:"state_digest,omitempty"`
	}{Schema: "trireme.checkpoint.show/1", checkpointRow: row, Config: m.Config, State: m.State, Digest: state, Files: []file{}, Tensors: []tensorInfo{}}
	for _, f := range c.Files() {
		out.Files = append(out.Files, file{f.Name, f.Bytes})
	}
	for _, t := range c.Tensors() {
		out.Tensors = append(out.Tensors, newTensorInfo(t))
	}
	return writeJSON(w, out)
}

func showCheckpoint(w io.Writer, row checkpointRow, state string, c *checkpoint.Checkpoint, tensors bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, monitor.EscapeControl(fmt.Sprintf(format, args...)))
	}
	line("checkpoint", "%s, step %d of run %s", objectstore.Clean(row.Path), row.Step, orUnset(row.Run))
	if row.Saved != nil {
		line("saved", "%s by %s, %s", row.Saved.Local().Format("2006-01-02 15:04:05"), number(int64(row.WorldSize), "rank"), orUnset(row.Strategy))
	}
	if row.EvalLoss != nil {
		best := ""
		if row.Best {
			best = ", the best"
		}
		line("evaluation", "loss %.4f%s", *row.EvalLoss, best)
	}
	line("format", "version %d, %s, %s in %s", row.Format, row.Layout, monitor.Bytes(row.Bytes), number(int64(len(c.Files())), "file"))
	line("digest", "sha256 %s", row.Digest)
	if state != "" {
		line("state", "sha256 %s", state)
	}
	for _, k := range byKind(c.Tensors()) {
		line(k.name, "%s, %s elements, %s", number(k.tensors, "tensor"), monitor.Thousands(float64(k.elems)), monitor.Bytes(k.bytes))
	}
	if err := t.Flush(); err != nil || !tensors {
		return err
	}
	fmt.Fprintln(w)
	fmt.Fprintln(t, "kind\ttensor\tdtype\tshape")
	for _, x := range c.Tensors() {
		fmt.Fprintln(t, escapeCells([]string{x.Kind, x.Name, x.DType.String(), x.Shape.String()}))
	}
	return t.Flush()
}

// kindSize is the sum over the tensors of a kind.
type kindSize struct {
	name                  string
	tensors, elems, bytes int64
}

// byKind sums the tensors by kind, in the order of the first of each.
func byKind(ts []checkpoint.Tensor) (out []kindSize) {
	at := map[string]int{}
	for _, t := range ts {
		i, ok := at[t.Kind]
		if !ok {
			i = len(out)
			at[t.Kind] = i
			out = append(out, kindSize{name: t.Kind})
		}
		n := int64(t.Shape.Elems())
		out[i].tensors, out[i].elems, out[i].bytes = out[i].tensors+1, out[i].elems+n, out[i].bytes+n*int64(t.DType.Size())
	}
	return out
}
