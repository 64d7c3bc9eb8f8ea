package tracefile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"trireme/trace"
)

// class is the kind of an event of PyTorch's profiler.
type class uint8

const (
	none     class = iota
	kernel         // work of a device
	operator       // of the host
	annotation
)

// Names of PyTorch's events.
const (
	profilerStep = "ProfilerStep#"
	recordComms  = "record_param_comms"
)

func classOf(category, name string) class {
	switch strings.ToLower(category) {
	case "kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset":
		return kernel
	case "cpu_op", "operator":
		return operator
	case "user_annotation":
		if strings.HasPrefix(name, profilerStep) || annotationKind(name) != trace.Other || backendCollective.MatchString(name) {
			return annotation
		}
	}
	return none
}

// annotationKind returns the kind of an annotation of the host; Other: none.
func annotationKind(name string) trace.Kind {
	switch {
	case strings.HasPrefix(name, "enumerate(DataLoader)"):
		return trace.Data
	case strings.HasPrefix(name, "Optimizer."):
		return trace.Optimizer
	case strings.Contains(strings.ToLower(name), "checkpoint"):
		return trace.Checkpoint
	}
	return trace.Other
}

// backendCollective matches annotations of process groups, such as gloo:all_reduce.
var backendCollective = regexp.MustCompile(`^(gloo|nccl|mpi|ucc|xccl|hccl):(.+)$`)

// collectiveOf returns the name of the collective that an event runs, such as all_reduce; "" for none.
func collectiveOf(name string) string {
	if m := backendCollective.FindStringSubmatch(name); m != nil {
		return normalOp(m[2])
	}
	if lower := strings.ToLower(name); strings.HasPrefix(lower, "nccl") || strings.HasPrefix(lower, "rccl") || strings.HasPrefix(lower, "void nccl") {
		if op := normalOp(name); op != name {
			return op
		}
	}
	return ""
}

// operations has the names of collectives by a part of a kernel's name, without underscores and case.
var operations = []struct {
	part, op string
	kind     trace.Kind
}{
	{"allreduce", "all_reduce", trace.AllReduce},
	{"allgather", "all_gather", trace.AllGather},
	{"reducescatter", "reduce_scatter", trace.ReduceScatter},
	{"alltoall", "all_to_all", trace.AllToAll},
	{"broadcast", "broadcast", trace.Barrier},
	{"barrier", "barrier", trace.Barrier},
	{"sendrecv", "send_recv", trace.Send},
	{"send", "send", trace.Send},
	{"recv", "recv", trace.Recv},
	{"scatter", "scatter", trace.Barrier},
	{"gather", "gather", trace.Barrier},
	{"reduce", "reduce", trace.Barrier},
}

func normalOp(name string) string {
	lower := strings.ReplaceAll(strings.ToLower(name), "_", "")
	for _, o := range operations {
		if strings.Contains(lower, o.part) {
			return o.op
		}
	}
	return name
}

func kindOfOp(op string) trace.Kind {
	for _, o := range operations {
		if o.op == op {
			return o.kind
		}
	}
	return trace.Barrier
}

// waits reports whether an operator of the host only waits for communication or starts it.
func waits(name string) bool {
	return strings.HasPrefix(name, "c10d::") || strings.HasPrefix(name, "_c10d_functional::") || strings.HasPrefix(name, recordComms) || strings.HasPrefix(name, "c10d_functional::")
}

// fileRank finds a rank in a file's name, such as rank-3.json.gz or trace_rank3_step5.json.
var fileRank = regexp.MustCompile(`(?i)(?:rank|worker)[-_. ]?(\d{1,6})`)

// kineto makes the trace of a file of PyTorch's profiler.
func (c *chromeReader) kineto(file string) (*Trace, error) {
	if len(c.events) == 0 {
		return nil, fmt.Errorf("no operators, kernels or collectives among %d events: not a trace of PyTorch's profiler or of Trireme", c.others)
	}
	r := Rank{Rank: -1, Foreign: true, Groups: map[string][]int{}}
	if c.dist.Rank != nil && *c.dist.Rank >= 0 {
		r.Rank = *c.dist.Rank
	} else if m := fileRank.FindStringSubmatch(file); m != nil {
		r.Rank, _ = strconv.Atoi(m[1])
	}
	for _, g := range c.dist.Groups {
		r.Groups[axisOf(g.Name, g.Text)] = g.Ranks
	}
	for i := range c.events {
		c.events[i].start += c.base
		c.events[i].end += c.base
	}
	slices.SortStableFunc(c.events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	t := &Trace{}
	steps := c.steps()
	if len(steps) == 0 {
		first, last := c.events[0].start, c.events[0].end
		for _, e := range c.events {
			last = max(last, e.end)
		}
		steps = []trace.Span{{Start: first, End: last, Kind: trace.Step}}
		t.Notes = append(t.Notes, "the profile has no steps (ProfilerStep): it counts as one")
	}
	r.Spans = append(steps, c.spans(&r)...)
	setSteps(r.Spans[len(steps):], steps)
	sortSpans(r.Spans)
	if len(r.Spans) == len(steps) {
		return nil, errors.New("no operators, kernels or collectives: not a trace of PyTorch's profiler or of Trireme")
	}
	t.Ranks = []Rank{r}
	return t, nil
}

// axisOf names a process group by its description, if it has one that says more.
func axisOf(name, text string) string {
	if text == "" || text == "undefined" {
		return name
	}
	return strings.TrimPrefix(text, "mesh_")
}

// steps returns the profiler's steps.
func (c *chromeReader) steps() (steps []trace.Span) {
	for _, e := range c.events {
		if number, ok := strings.CutPrefix(e.name, profilerStep); ok {
			n, _ := strconv.ParseInt(number, 10, 32)
			steps = append(steps, trace.Span{Start: e.start, End: e.end, Kind: trace.Step, Step: n})
		}
	}
	return steps
}

// setSteps gives each span the step that it starts in.
func setSteps(spans, steps []trace.Span) {
	for i := range spans {
		at, found := slices.BinarySearchFunc(steps, spans[i].Start, func(s trace.Span, start int64) int { return cmp.Compare(s.Start, start) })
		if !found {
			at--
		}
		if at >= 0 && spans[i].Start <= steps[at].End {
			spans[i].Step = steps[at].Step
		}
	}
}

// spans returns the spans of a rank: its collectives, and as compute the work of devices, or of the host if there
// is none.
func (c *chromeReader) spans(r *Rank) (spans []trace.Span) {
	seq := map[[2]string]uint64{} // by group and operation
	top := map[string]int64{}     // end of the last operator of a thread
	for _, e := range c.events {
		s := trace.Span{Start: e.start, End: e.end}
		class, op := classOf(e.category, e.name), collectiveOf(e.name)
		switch {
		case strings.HasPrefix(e.name, profilerStep):
			continue
		case op != "" && class != operator:
			if c.device && class != kernel {
				continue // the host starts what a kernel does
			}
			s.Stream, s.Kind, s.Op = trace.Comm, kindOfOp(op), op
			e.args.collective(&s, r)
			if s.Seq == 0 {
				seq[[2]string{s.Axis, op}]++
				s.Seq = seq[[2]string{s.Axis, op}]
			}
		case class == kernel:
			if s.Kind = trace.Program; strings.Contains(strings.ToLower(e.category), "memcpy") {
				s.Kind = trace.Upload
			}
			s.Op = e.name
		case class == annotation:
			s.Kind, s.Op = annotationKind(e.name), e.name
			if !c.device {
				top[e.pid+"/"+e.tid] = max(top[e.pid+"/"+e.tid], e.end)
			}
		default: // an operator of the host
			if s.Op = e.name; waits(e.name) {
				s.Kind = trace.Wait
				break
			}
			if e.end <= top[e.pid+"/"+e.tid] {
				continue // within another
			}
			top[e.pid+"/"+e.tid] = e.end
			if s.Kind = trace.Forward; strings.HasPrefix(e.name, "autograd::engine") || strings.HasSuffix(e.name, "Backward0") {
				s.Kind = trace.Backward
			}
		}
		spans = append(spans, s)
	}
	return spans
}

// elementSize returns the bytes of an element of a type of PyTorch's; 0 is unknown.
func elementSize(dtype string) int64 {
	switch strings.ToLower(dtype) {
	case "float", "int", "float32", "int32":
		return 4
	case "half", "bfloat16", "float16", "short":
		return 2
	case "double", "long", "float64", "int64":
		return 8
	case "byte", "char", "bool", "uint8", "int8", "float8_e4m3fn", "float8_e5m2":
		return 1
	}
	return 0
}

// collective sets the fields of a collective that its arguments have.
func (a *eventArgs) collective(s *trace.Span, r *Rank) {
	if a == nil {
		return
	}
	if s.Axis = axisOf(id(a.Group), a.GroupText); s.Axis != "" && r.Groups[s.Axis] == nil {
		var ranks []int
		text := id(a.Ranks)
		if json.Unmarshal([]byte(text), &ranks) == nil && len(ranks) > 0 {
			r.Groups[s.Axis] = ranks
		}
	}
	s.Seq, s.Bytes = uint64(max(0, a.Sequence)), int64(max(a.In, a.Out))*elementSize(a.Type)
	if a.Collective != "" {
		s.Op = normalOp(a.Collective)
		s.Kind = kindOfOp(s.Op)
	}
}
