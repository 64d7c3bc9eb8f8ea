package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"trireme/device"
	"trireme/monitor"
)

func columns(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
}

func (r *planReport) print(w io.Writer) error {
	d := r.planDetail
	recomputed := ""
	if d.Recompute {
		recomputed = ", layers recomputed"
	}
	trained := ""
	if d.Trained != r.Parameters {
		trained = fmt.Sprintf(", %s trained, %s frozen", number(d.Trained, ""), number(r.Parameters-d.Trained, ""))
	}
	fmt.Fprintf(w, "model: %s (%s): %s%s\n", r.Model, r.Family, number(r.Parameters, "parameter"), trained)
	machines := ""
	if r.Local > 0 {
		machines = fmt.Sprintf(" on machines of %d", r.Local)
	}
	fmt.Fprintf(w, "ranks: %d%s, %s (replicate x shard: %s), computing in %s%s\n", r.WorldSize, machines, d.Strategy, d.Mesh, d.ParamDType, recomputed)
	batch := describeBatch(d.Batch.Global, d.Batch.Micro, r.WorldSize)
	if d.Tokens > 0 {
		batch = fmt.Sprintf("%d in micro-batches of up to %d tokens, accumulation %d x ranks %d", d.Batch.Global, d.Tokens, d.Batch.Accumulation, r.WorldSize)
	}
	fmt.Fprintf(w, "rows per step: %s, of up to %d tokens\n", batch, d.SequenceLength)
	if r.Note != "" {
		fmt.Fprintln(w, r.Note)
	}
	for _, n := range d.Offload {
		fmt.Fprintln(w, n)
	}
	if err := d.printMemory(w); err != nil {
		return err
	}
	if d.PerRank.Compiled != nil {
		if err := d.PerRank.Compiled.print(w, d.PerRank.Total); err != nil {
			return err
		}
	}
	d.printSlots(w)
	d.printWork(w)
	if err := d.printStrategies(w); err != nil {
		return err
	}
	d.printAdvice(w)
	if r.Predicted != nil {
		if err := r.Predicted.print(w); err != nil {
			return err
		}
	}
	return r.printAccountings(w)
}

func (d *planDetail) printMemory(w io.Writer) error {
	fmt.Fprintln(w, "\nmemory per rank:")
	t := columns(w)
	host := d.PerRank.Host
	head, onHost := "\tbetween steps\tat peak\tcategory peak\t", func(func(bytesBy) int64) string { return "" }
	compiled := ""
	if d.PerRank.Compiled != nil {
		head += "compiled\t"
		compiled = device.Bytes(d.PerRank.Compiled.Peak).Binary() + "\t"
	}
	empty := strings.Repeat("\t", strings.Count(compiled, "\t"))
	if host != nil {
		head += "host\t"
		onHost = func(of func(bytesBy) int64) string { return device.Bytes(of(*host)).Binary() + "\t" }
	}
	fmt.Fprintln(t, head)
	rest, peak, categoryPeak := d.PerRank.AtRest, d.PerRank.bytesBy, d.PerRank.CategoryPeak
	for _, row := range []struct {
		name string
		of   func(bytesBy) int64
	}{
		{"parameters", func(u bytesBy) int64 { return u.Parameters }},
		{"gradients", func(u bytesBy) int64 { return u.Gradients }},
		{"master copy", func(u bytesBy) int64 { return u.Master }},
		{"optimizer", func(u bytesBy) int64 { return u.Optimizer }},
		{"gathered", func(u bytesBy) int64 { return u.Gathered }},
		{"buckets", func(u bytesBy) int64 { return u.Buckets }},
		{"activations", func(u bytesBy) int64 { return u.Activations }},
		{"logits", func(u bytesBy) int64 { return u.Logits }},
		{"workspace", func(u bytesBy) int64 { return u.Workspace }},
		{"snapshot", func(u bytesBy) int64 { return u.Snapshot }},
		{"checkpoints", func(u bytesBy) int64 { return u.Checkpoints }},
		{"offloaded", func(u bytesBy) int64 { return u.Offloaded }},
	} {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s%s\n", row.name, device.Bytes(row.of(rest)).Binary(), device.Bytes(row.of(peak)).Binary(), device.Bytes(row.of(categoryPeak)).Binary(), empty, onHost(row.of))
	}
	total := "total"
	if host != nil {
		total = "total (device, host)"
	}
	fmt.Fprintf(t, "%s\t%s\t%s\t\t%s%s\n", total, device.Bytes(rest.Total).Binary(), device.Bytes(peak.Total).Binary(), compiled, onHost(func(u bytesBy) int64 { return u.Total }))
	fmt.Fprintf(t, "\t%s\t%s\t\t%s", device.Bytes(rest.Total).Decimal(), device.Bytes(peak.Total).Decimal(), empty)
	if host != nil {
		fmt.Fprintf(t, "%s\t", device.Bytes(host.Total).Decimal())
	}
	fmt.Fprintln(t)
	return t.Flush()
}

func (d *planDetail) printSlots(w io.Writer) {
	if len(d.Slots) == 0 {
		return
	}
	var parts []string
	for _, s := range d.Slots {
		parts = append(parts, fmt.Sprintf("%s %s", s.Name, device.Bytes(s.Bytes).Binary()))
	}
	fmt.Fprintf(w, "\noptimizer state per rank: %s\n", strings.Join(parts, ", "))
}

func (d *planDetail) printWork(w io.Writer) {
	fmt.Fprintf(w, "\neach rank sends %v per step", device.Bytes(d.Communication.Total))
	for i, s := range d.Communication.By {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(w, "%s%d x %s over %s %s", sep, s.Calls, s.Collective, s.Group, device.Bytes(s.Bytes).Decimal())
	}
	fmt.Fprintf(w, "\nFLOPs per step: %s total, %s per rank", monitor.SI(d.FLOPs.Step), monitor.SI(d.FLOPs.Rank))
	if d.FLOPs.Executed > 0 {
		fmt.Fprintf(w, " (%s executed, incl. recomputation)", monitor.SI(d.FLOPs.Executed))
	}
	fmt.Fprintln(w)
}

func (d *planDetail) printStrategies(w io.Writer) error {
	fmt.Fprintln(w, "\nother strategies, per rank:")
	t := columns(w)
	head, host := "strategy\tmesh\tbetween steps\tat peak\t\tsends\t", d.PerRank.Host != nil
	if host {
		head += "host\t"
	}
	if d.GPUMemory > 0 {
		head += fmt.Sprintf("fits %s\tlargest micro-batch\taccumulation\t", device.Bytes(d.GPUMemory).Decimal())
	}
	fmt.Fprintln(t, head)
	var cannot []string
	for _, p := range d.Strategies {
		if p.Error != "" {
			cannot = append(cannot, p.Strategy+": "+p.Error)
			continue
		}
		m := p.PerRank
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t", p.Strategy, p.Mesh, device.Bytes(m.AtRest.Total).Binary(), device.Bytes(m.Total).Binary(), device.Bytes(m.Total).Decimal(), device.Bytes(p.Communication.Total).Decimal())
		if host {
			n := int64(0)
			if m.Host != nil {
				n = m.Host.Total
			}
			fmt.Fprintf(t, "%s\t", device.Bytes(n).Binary())
		}
		if p.Fits != nil {
			fits, micro, accumulation := "no", "-", ""
			if *p.Fits {
				fits = "yes"
			}
			if p.Largest != nil {
				micro, accumulation = fmt.Sprint(p.Largest.Micro), fmt.Sprint(p.Largest.Accumulation)
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t", fits, micro, accumulation)
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, c := range cannot {
		fmt.Fprintln(w, c)
	}
	return nil
}

func (d *planDetail) printAdvice(w io.Writer) {
	if d.Recommendation == nil {
		return
	}
	r := d.Recommendation
	fmt.Fprintln(w)
	if r.Strategy == "" {
		fmt.Fprintf(w, "%s\n", r.Reason)
	} else {
		with := ""
		if r.Recompute {
			with = ", every layer recomputed"
		}
		fmt.Fprintf(w, "recommended: %s%s, %v: it %s\n", r.Strategy, with, *r.Batch, r.Reason)
		if *r.Largest != *r.Batch {
			fmt.Fprintf(w, "largest batch with it: %v\n", *r.Largest)
		}
	}
	if len(d.Changes) == 0 {
		return
	}
	fmt.Fprintf(w, "%s does not fit. try one:\n", d.Strategy)
	for _, c := range d.Changes {
		fmt.Fprintf(w, "  %s (%s): --set %s\n", c.What, c.Effect, strings.Join(c.Set, " --set "))
	}
}

func (r *planReport) printAccountings(w io.Writer) error {
	name := ""
	t := columns(w)
	for _, a := range r.Accountings {
		if a.Accounting != name {
			name = a.Accounting
			fmt.Fprintf(t, "\n%s: model states of %s on %s (%s):\n", name, number(r.Parameters, "parameter"), number(int64(r.WorldSize), "rank"), a.source)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t\n", a.Strategy, device.Bytes(a.Bytes).Decimal(), device.Bytes(a.Bytes).Binary())
	}
	if len(r.Estimates) > 0 {
		fmt.Fprintf(t, "\ndeepspeed: output of its estimators in GiB (labeled GB there), for %s on %s:\n", number(r.Parameters, "parameter"), number(int64(r.WorldSize), "rank"))
		fmt.Fprintln(t, "host per node\tdevice per rank\toffload\t")
	}
	for _, e := range r.Estimates {
		off := "none"
		switch {
		case e.OffloadParam:
			off = "parameters and optimizer"
		case e.OffloadOptimizer:
			off = "optimizer"
		}
		if e.Strategy == "full_shard" {
			off += fmt.Sprintf(", zero_init %t", e.ZeroInit)
		}
		fmt.Fprintf(t, "%.2f GiB\t%.2f GiB\t%s, %s\t\n", e.Host/(1<<30), e.Device/(1<<30), e.Strategy, off)
	}
	if len(r.Estimates) == 2 {
		fmt.Fprintln(t, "full_shard needs the size of the largest module: --largest_layer N")
	}
	return t.Flush()
}
