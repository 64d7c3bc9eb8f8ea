package hlo

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Collective is a collective of a program.
type Collective struct {
	Op    string // all-gather, reduce-scatter, all-reduce, ...
	Name  string
	Bytes int64 // of its larger side: the full array of an all-gather or a reduce-scatter
	Runs  int64 // executions, by the iterations of the loops that it is in
	Loop  bool  // it is in the body of a loop
	// Products is the number of matrix products and attention calls that are scheduled between its start and
	// its end; 0 if it has both at once.
	Products int
}

// Hidden reports whether the collective runs at the same time as a product.
func (c Collective) Hidden() bool { return c.Products > 0 }

// Hidden is the share of the bytes of collectives that run at the same time as products; 1 without
// collectives.
func Hidden(cs []Collective) float64 {
	all, hidden := 0.0, 0.0
	for _, c := range cs {
		n := float64(c.Bytes) * float64(c.Runs)
		if all += n; c.Hidden() {
			hidden += n
		}
	}
	if all == 0 {
		return 1
	}
	return hidden / all
}

var operations = []string{"all-gather", "reduce-scatter", "all-reduce", "all-to-all", "collective-permute"}

// Collectives returns the collectives of a program in the order of the schedule. text is of
// pjrt.Executable.Text.
func Collectives(text string) ([]Collective, error) {
	m, err := parse(text)
	if err != nil {
		return nil, err
	}
	r := &reader{module: m, products: map[int64]int{}, seen: map[int64]bool{}}
	r.read(m.entry, 1, false)
	return r.out, nil
}

// reader walks the computations that the entry runs.
type reader struct {
	*module
	products map[int64]int // by computation
	seen     map[int64]bool
	out      []Collective
}

var tripCount = regexp.MustCompile(`"known_trip_count":\{"n":"([0-9]+)"`)

// maxRuns limits the count of runs.
const maxRuns = 1 << 30

// read appends the collectives of a computation that runs several times. The compiler makes a computation
// for each caller.
func (r *reader) read(computation, runs int64, loop bool) {
	if r.seen[computation] {
		return
	}
	r.seen[computation] = true
	list := r.computations[computation]
	for at, i := range list {
		switch {
		case i.opcode == "while":
			n := int64(1)
			if found := tripCount.FindStringSubmatch(i.config); found != nil {
				n, _ = strconv.ParseInt(found[1], 10, 64)
			}
			n = min(runs*min(n, maxRuns), maxRuns)
			for _, c := range i.called {
				r.read(c, n, true)
			}
			continue
		case i.opcode == "call" || i.opcode == "conditional":
			for _, c := range i.called {
				r.read(c, runs, loop)
			}
			continue
		}
		op, bytes := r.communication(i, 0)
		if op == "" || strings.HasSuffix(i.opcode, "-done") || strings.HasSuffix(i.opcode, "-update") {
			continue
		}
		c := Collective{Op: op, Name: i.name, Bytes: max(bytes, r.operandBytes(list, i)), Runs: runs, Loop: loop}
		if strings.HasSuffix(i.opcode, "-start") {
			for _, j := range list[at+1:] {
				if strings.HasSuffix(j.opcode, "-done") && slices.Contains(j.operands, i.id) {
					break
				}
				c.Products += r.work(j, 0)
			}
		}
		r.out = append(r.out, c)
	}
}

// communication is the operation of a collective, and the bytes of its result; "" for other instructions.
func (r *reader) communication(i *instruction, depth int) (string, int64) {
	name := strings.TrimSuffix(strings.TrimSuffix(i.opcode, "-start"), "-done")
	if slices.Contains(operations, name) {
		return name, i.bytes
	}
	if !strings.HasPrefix(i.opcode, "async-") || depth > 1 {
		return "", 0
	}
	for _, c := range i.called {
		for _, j := range r.computations[c] {
			if op, n := r.communication(j, depth+1); op != "" {
				return op, n
			}
		}
	}
	return "", 0
}

// operandBytes is the size of the largest operand.
func (r *reader) operandBytes(list []*instruction, i *instruction) (n int64) {
	for _, j := range list {
		if slices.Contains(i.operands, j.id) {
			n = max(n, j.bytes)
		}
	}
	return n
}

// work is the number of products in an instruction. A loop counts as one iteration.
func (r *reader) work(i *instruction, depth int) int {
	switch {
	case i.opcode == "dot" || i.opcode == "convolution", i.opcode == "custom-call" && (strings.HasPrefix(i.target, "__cublas") || strings.HasPrefix(i.target, "__cudnn")):
		return 1
	case depth > maxDepth || strings.HasPrefix(i.opcode, "async-"):
		return 0
	}
	n := 0
	for _, c := range i.called {
		if _, ok := r.products[c]; !ok {
			sum := 0
			r.products[c] = 0
			for _, j := range r.computations[c] {
				sum += r.work(j, depth+1)
			}
			r.products[c] = sum
		}
		n += r.products[c]
	}
	return n
}
