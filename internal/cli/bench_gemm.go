package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trireme/device"
	"trireme/internal/bench"
	"trireme/tensor"
)

type gemmReport struct {
	Schema  string `json:"schema"`
	Kernels string `json:"kernels"`
	bench.GEMMReport
}

func newBenchGEMM() *cobra.Command {
	var threads int
	var seconds float64
	var shapes, dtype string
	instructions, matmul := device.AutoInstructions, device.AutoFloat32Matmul
	var asJSON bool
	c := &cobra.Command{
		Use:   "gemm",
		Short: "measure matrix products relative to this processor's peak",
		Long: `Measure products [M K] * [K N], named MxKxN. With _t the second operand is transposed, as the weight
of a linear layer; _dx and _dw are the gradients of such a layer. The peak is measured with fused
multiply-adds during the run, or with bfloat16 products if the processor is faster by them.`,
		Example: "  trireme bench gemm --threads 1 --json",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if threads < 1 {
				return usage(fmt.Sprintf("--threads is %d: it must be at least 1", threads), "--threads 1")
			}
			if !(seconds > 0) {
				return usage(fmt.Sprintf("--seconds is %v: it must be above 0", seconds), "--seconds 1.5")
			}
			list, err := gemmShapes(shapes)
			if err != nil {
				return err
			}
			if err := oneOf("dtype", dtype, "float32", "bfloat16", "float16"); err != nil {
				return err
			}
			if err := useInstructions(instructions); err != nil {
				return err
			}
			if err := oneOf("float32_matmul", string(matmul), matmul.Choices()...); err != nil {
				return err
			}
			o := bench.GEMMOptions{Threads: threads, Float32Matmul: matmul, Time: time.Duration(seconds * float64(time.Second)), Shapes: list}
			o.DType, _ = tensor.ParseDType(dtype)
			r, err := bench.GEMM(c.Context(), o)
			if err != nil {
				return err
			}
			v := readVersion()
			if asJSON {
				return writeJSON(c.OutOrStdout(), gemmReport{"trireme.bench.gemm/1", v.Kernels, r})
			}
			fmt.Fprintf(c.OutOrStdout(), "%d threads, %s kernels, peak %.1f GFLOP/s\n", r.Threads, v.Kernels, r.FMAPeakGFLOPS)
			return printGEMM(c.OutOrStdout(), o.Shapes, r)
		},
	}
	f := c.Flags()
	f.IntVar(&threads, "threads", 1, "threads")
	f.Float64Var(&seconds, "seconds", 1.5, "seconds per measurement")
	f.StringVar(&shapes, "shapes", "peers", "peers (of the comparison with OpenBLAS), training (of bench step), or a list such as 512x768x3072,512x768x3072_dw")
	f.StringVar(&dtype, "dtype", "float32", "type of the operands: float32, bfloat16 or float16")
	addInstructions(f, &instructions)
	addFloat32Matmul(f, &matmul)
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	_ = c.RegisterFlagCompletionFunc("shapes", cobra.FixedCompletions([]string{"peers", "training"}, cobra.ShellCompDirectiveNoFileComp)) // cannot fail: the flag exists
	return c
}

// addInstructions adds the flag of device.instructions.
func addInstructions(f *pflag.FlagSet, to *device.Instructions) {
	f.StringVar((*string)(to), "instructions", string(*to), "instruction set of operations on cpu: "+strings.Join(to.Choices(), ", "))
}

// addFloat32Matmul adds the flag of device.float32_matmul.
func addFloat32Matmul(f *pflag.FlagSet, to *device.Float32Matmul) {
	f.StringVar((*string)(to), "float32_matmul", string(*to), "products of float32 matrices on cpu: "+strings.Join(to.Choices(), ", "))
}

func useInstructions(i device.Instructions) error {
	if err := oneOf("instructions", string(i), i.Choices()...); err != nil {
		return err
	}
	if err := i.Use(); err != nil {
		return usage(fmt.Sprintf("--instructions %s: this processor does not have them", i), "--instructions auto")
	}
	return nil
}

func gemmShapes(list string) ([]bench.GEMMShape, error) {
	switch list {
	case "peers":
		return bench.PeerGEMMShapes(), nil
	case "training":
		return bench.TrainingGEMMShapes(), nil
	}
	var shapes []bench.GEMMShape
	for name := range strings.SplitSeq(list, ",") {
		var s bench.GEMMShape
		size, kind, _ := strings.Cut(name, "_")
		s.Trans, s.DX, s.DW = kind == "t", kind == "dx", kind == "dw"
		_, err := fmt.Sscanf(size, "%dx%dx%d", &s.M, &s.K, &s.N)
		if err != nil || s.String() != name || min(s.M, s.K, s.N) < 1 {
			return nil, usage(fmt.Sprintf("--shapes: %q is neither peers, training, nor a product MxKxN", name), "--shapes 512x768x3072")
		}
		if s.M > maxSide || s.K > maxSide || s.N > maxSide {
			return nil, usage(fmt.Sprintf("--shapes: %s exceeds %d in a dimension", name, maxSide), "--shapes 512x768x3072")
		}
		shapes = append(shapes, s)
	}
	return shapes, nil
}

// maxSide limits operands to a few gigabytes.
const maxSide = 1 << 15

func printGEMM(out io.Writer, shapes []bench.GEMMShape, r bench.GEMMReport) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "shape\tGFLOP/s\tbest\tof peak\tproducts\t")
	for _, s := range shapes {
		g := r.GFLOPS[s.String()]
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f%%\t%d\t\n", s, g.Median, g.Best, r.PercentOfPeak[s.String()], g.N)
	}
	return t.Flush()
}
