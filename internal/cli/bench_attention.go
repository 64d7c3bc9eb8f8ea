package cli

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"trireme/device"
	"trireme/internal/bench"
	"trireme/tensor"
)

type attentionReport struct {
	Schema  string `json:"schema"`
	Kernels string `json:"kernels"`
	bench.AttentionReport
}

func newBenchAttention() *cobra.Command {
	var dtype string
	o := bench.AttentionOptions{}
	instructions := device.AutoInstructions
	var asJSON bool
	c := &cobra.Command{
		Use:   "attention",
		Short: "measure attention of one head at several lengths of a row",
		Long: `Measure attention of one head with a causal mask, forward and backward, at several lengths. A query
and a key that it sees count as 4 E FLOPs forward and 10 E backward, with E the dimension of the head.
Each measurement is between two of the first length; the ratio is the median of a length's speed
divided by the mean of those two, so other load on the machine cancels.`,
		Example: "  trireme bench attention --head_dim 128 --dtype bfloat16 --lengths 1024,32768",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Threads < 1 {
				return usage(fmt.Sprintf("--threads is %d: it must be at least 1", o.Threads), "--threads 1")
			}
			if o.Rounds < 1 {
				return usage(fmt.Sprintf("--rounds is %d: it must be at least 1", o.Rounds), "--rounds 5")
			}
			if o.HeadDim < 1 || o.HeadDim > maxHeadDim {
				return usage(fmt.Sprintf("--head_dim is %d: it must be in [1, %d]", o.HeadDim, maxHeadDim), "--head_dim 64")
			}
			if len(o.Lengths) == 0 || slices.Min(o.Lengths) < 1 || slices.Max(o.Lengths) > maxLength {
				return usage(fmt.Sprintf("--lengths is %v: lengths must be in [1, %d]", o.Lengths, maxLength), "--lengths 1024,8192")
			}
			if err := oneOf("dtype", dtype, "float32", "bfloat16", "float16"); err != nil {
				return err
			}
			if err := useInstructions(instructions); err != nil {
				return err
			}
			o.DType, _ = tensor.ParseDType(dtype)
			r, err := bench.Attention(c.Context(), o)
			if err != nil {
				return err
			}
			v := readVersion()
			if asJSON {
				return writeJSON(c.OutOrStdout(), attentionReport{"trireme.bench.attention/1", v.Kernels, r})
			}
			fmt.Fprintf(c.OutOrStdout(), "%s kernels, %s, %s, a head of %d\n", v.Kernels, number(int64(r.Threads), "thread"), r.DType, r.HeadDim)
			return printAttention(c.OutOrStdout(), r)
		},
	}
	f := c.Flags()
	f.IntVar(&o.Threads, "threads", 1, "threads")
	f.IntVar(&o.HeadDim, "head_dim", 64, "dimension of the head")
	f.IntSliceVar(&o.Lengths, "lengths", []int{1024, 8192, 32768}, "lengths of the row; the others are compared with the first")
	f.IntVar(&o.Rounds, "rounds", 5, "measurements of each length")
	f.StringVar(&dtype, "dtype", "float32", "type of the operands: float32, bfloat16 or float16")
	addInstructions(f, &instructions)
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// Limits that keep operands to a few gigabytes.
const maxHeadDim, maxLength = 512, 1 << 20

func printAttention(out io.Writer, r bench.AttentionReport) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "length\tforward GFLOP/s\tbest\tratio\tbackward GFLOP/s\tbest\tratio\t")
	for _, l := range r.Lengths {
		fmt.Fprintf(t, "%d\t%.1f\t%.1f\t%.3f\t%.1f\t%.1f\t%.3f\t\n", l.Length, l.Forward.Median, l.Forward.Best, l.Forward.Ratio, l.Backward.Median, l.Backward.Best, l.Backward.Ratio)
	}
	return t.Flush()
}
