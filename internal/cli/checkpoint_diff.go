package cli

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"trireme/checkpoint"
)

type checkpointDiff struct {
	Schema  string       `json:"schema"`
	A       diffSide     `json:"a"`
	B       diffSide     `json:"b"`
	Equal   bool         `json:"equal"`
	Tensors []tensorDiff `json:"tensors"` // all, equal ones too
}

type diffSide struct {
	Path      string `json:"path"`
	Step      int    `json:"step"`
	WorldSize int    `json:"world_size"`
	Strategy  string `json:"strategy"`
}

type tensorDiff struct {
	Kind     string      `json:"kind"`
	Name     string      `json:"name"`
	A        *tensorInfo `json:"a"` // null: absent
	B        *tensorInfo `json:"b"`
	Same     bool        `json:"same"`
	Compared bool        `json:"compared"` // both have it in one shape; the rest is 0 otherwise
	Elements int64       `json:"elements"`
	Equal    int64       `json:"equal"`
	MaxAbs   float64     `json:"max_abs"`
	Relative *float64    `json:"relative"` // norm of a-b by norm of a; null: a is 0
	NaN      int64       `json:"not_finite"`
}

func newCheckpointDiff() *cobra.Command {
	var asJSON, params bool
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "compare the tensors of two checkpoints",
		Long: `Compare two checkpoints tensor by tensor, whatever the number of ranks, the strategy and the layout that
saved them: the number of equal elements, the largest absolute difference, and the norm of the
difference relative to that of A. Only tensors that differ are listed.

The exit code is 0 if all tensors are equal, 3 if any differs or is only in one of them, and 2 if a
checkpoint is damaged.`,
		Example: `  trireme checkpoint diff runs/sft-1/checkpoints/step-100 runs/sft-1/checkpoints/step-200
  trireme checkpoint diff runs/sft-1 runs/sft-2 --params`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage(fmt.Sprintf("diff needs two checkpoints or runs, not %d", len(args)), "trireme checkpoint ls")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			d, err := diffCheckpoints(c, args, params)
			if err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(c.OutOrStdout(), d)
			} else {
				err = d.print(c.OutOrStdout())
			}
			if err == nil && !d.Equal {
				err = &Exit{CodeNo, nil}
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.Flags().BoolVar(&params, "params", false, "compare parameters only, not the optimizer's state")
	return c
}

func diffCheckpoints(c *cobra.Command, args []string, params bool) (*checkpointDiff, error) {
	var open [2]*checkpoint.Checkpoint
	var sides [2]diffSide
	for i, name := range args {
		path, ck, err := openCheckpoint(name, c.ErrOrStderr())
		if err != nil {
			return nil, err
		}
		defer ck.Close()
		m := ck.Meta()
		open[i], sides[i] = ck, diffSide{path, m.Step, m.WorldSize, m.Strategy}
	}
	kind := ""
	if params {
		kind = checkpoint.Param
	}
	found, err := checkpoint.Diff(c.Context(), open[0], open[1], kind)
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	d := &checkpointDiff{Schema: "trireme.checkpoint.diff/1", A: sides[0], B: sides[1], Equal: true, Tensors: []tensorDiff{}}
	for _, f := range found {
		t := tensorDiff{Kind: f.Kind, Name: f.Name, Same: f.Same(), Compared: f.Compared, Elements: f.Elems, Equal: f.Equal, MaxAbs: f.MaxAbs, Relative: finite(f.Relative), NaN: f.NotFinite}
		for _, side := range []struct {
			from *checkpoint.Tensor
			to   **tensorInfo
		}{{f.A, &t.A}, {f.B, &t.B}} {
			if side.from != nil {
				info := newTensorInfo(*side.from)
				*side.to = &info
			}
		}
		d.Equal = d.Equal && t.Same
		d.Tensors = append(d.Tensors, t)
	}
	return d, nil
}

func (d *checkpointDiff) print(w io.Writer) error {
	fmt.Fprintf(w, "a: %s, step %d, %s\n", d.A.Path, d.A.Step, number(int64(d.A.WorldSize), "rank"))
	fmt.Fprintf(w, "b: %s, step %d, %s\n", d.B.Path, d.B.Step, number(int64(d.B.WorldSize), "rank"))
	if d.Equal {
		_, err := fmt.Fprintf(w, "%s, all equal\n", number(int64(len(d.Tensors)), "tensor"))
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "kind\ttensor\tshape\tequal\tmax abs\trelative")
	differ := int64(0)
	for _, x := range d.Tensors {
		if x.Same {
			continue
		}
		differ++
		fmt.Fprintln(t, escapeCells(x.cells()))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d of %s differ\n", differ, number(int64(len(d.Tensors)), "tensor"))
	return err
}

func (x tensorDiff) cells() []string {
	shape := func(t *tensorInfo) string { return fmt.Sprint(t.DType, t.Shape) }
	switch {
	case x.B == nil:
		return []string{x.Kind, x.Name, shape(x.A), "only in a", "", ""}
	case x.A == nil:
		return []string{x.Kind, x.Name, shape(x.B), "only in b", "", ""}
	case !x.Compared:
		return []string{x.Kind, x.Name, shape(x.A) + ", " + shape(x.B), "another shape", "", ""}
	}
	shapes := shape(x.A)
	if x.A.DType != x.B.DType {
		shapes += ", " + x.B.DType
	}
	equal, relative := fmt.Sprintf("%d of %d", x.Equal, x.Elements), "-"
	if x.NaN > 0 {
		equal += fmt.Sprintf(", %d not finite", x.NaN)
	}
	if x.Relative != nil {
		relative = fmt.Sprintf("%.3g", *x.Relative)
	}
	return []string{x.Kind, x.Name, shapes, equal, fmt.Sprintf("%.3g", x.MaxAbs), relative}
}
