package numa

import (
	"fmt"
	"slices"
	"strings"
)

// Policy says whether workers are bound.
type Policy string

// Policies.
const (
	Auto    Policy = "auto"
	OnNode  Policy = "node"
	Unbound Policy = "none"
)

// Choices lists all policies.
func (Policy) Choices() []string { return []string{string(Auto), string(OnNode), string(Unbound)} }

// Binding is the share of a worker.
type Binding struct {
	Nodes []int // IDs
	CPUs  CPUs
}

// Bind divides nodes among workers. With near nil it spreads workers evenly, in order: neighbors share a node, and
// with fewer workers than nodes each worker has several. Otherwise worker i is on the node with the ID near[i], that of its
// device. The cores of a node are divided among its workers, else its processors; if there are too few of
// these, the workers share all. Unless near is set, all processors are used. nodes must not be empty.
func Bind(nodes []Node, workers int, near []int) ([]Binding, error) {
	first := make([]int, workers) // index of each worker's first node
	for w := range first {
		first[w] = w * len(nodes) / workers
		if near == nil {
			continue
		}
		first[w] = slices.IndexFunc(nodes, func(n Node) bool { return n.ID == near[w] })
		if first[w] < 0 {
			return nil, fmt.Errorf("numa: device %d is on node %d, which has no processor for this process", w, near[w])
		}
	}
	sharers := make([]int, len(nodes))
	for _, n := range first {
		sharers[n]++
	}
	all, earlier := make([]Binding, workers), make([]int, len(nodes))
	for w, n := range first {
		last := n + 1
		if near == nil {
			last = max(last, (w+1)*len(nodes)/workers)
		}
		var cores []CPUs
		for _, node := range nodes[n:last] {
			all[w].Nodes = append(all[w].Nodes, node.ID)
			cores = append(cores, node.Cores...)
		}
		all[w].CPUs = share(cores, earlier[n], sharers[n])
		earlier[n]++
	}
	return all, nil
}

// share returns part i of n of the cores, or of their processors.
func share(cores []CPUs, i, n int) CPUs {
	part := cores
	if n <= len(cores) {
		part = cores[i*len(cores)/n : (i+1)*len(cores)/n]
	}
	cpus := slices.Concat(part...)
	slices.Sort(cpus)
	if n > len(cores) && n <= len(cpus) {
		cpus = cpus[i*len(cpus)/n : (i+1)*len(cpus)/n]
	}
	return cpus
}

// Plan applies a policy to workers on a machine with these nodes. near is as in Bind, and processors the number of
// threads that the workers have together (GOMAXPROCS). No binding means that they run unbound; why then has the
// reason, if it is worth a line.
func Plan(p Policy, nodes []Node, workers int, near []int, processors int) (all []Binding, why string, err error) {
	total := 0
	for _, n := range nodes {
		total += n.Size()
	}
	switch {
	case p == Unbound || p == Auto && len(nodes) < 2 || workers < 2 && near == nil:
		return nil, "", nil
	case len(nodes) < 2:
		return nil, "this process may use the processors of one node", nil
	case p == Auto && processors < total:
		return nil, fmt.Sprintf("%d of %d processors may be used at a time", processors, total), nil
	}
	if all, err = Bind(nodes, workers, near); err != nil {
		return nil, "", err
	}
	if least, _ := sizes(all); p == Auto && near == nil && least < total/workers {
		return nil, fmt.Sprintf("%d processes have unequal shares of %d nodes", workers, len(nodes)), nil
	}
	return all, "", nil
}

// sizes returns the smallest and the largest number of processors of a worker.
func sizes(all []Binding) (least, most int) {
	least = len(all[0].CPUs)
	for _, b := range all {
		least, most = min(least, len(b.CPUs)), max(most, len(b.CPUs))
	}
	return least, most
}

// Describe returns a line on the workers of a machine with this number of ranks each: "local ranks 0-3 on node 0, 4-7
// on node 1, 8 processors each".
func Describe(all []Binding, ranks int) string {
	var b strings.Builder
	for w := 0; w < len(all); {
		n := 1
		for w+n < len(all) && slices.Equal(all[w+n].Nodes, all[w].Nodes) {
			n++
		}
		var of CPUs // numbers of ranks and nodes have the format of processors
		for r := w * ranks; r < (w+n)*ranks; r++ {
			of = append(of, r)
		}
		nodes := "node"
		if len(all[w].Nodes) > 1 {
			nodes = "nodes"
		}
		if w > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%v on %s %v", of, nodes, CPUs(all[w].Nodes))
		w += n
	}
	each := "processors"
	least, most := sizes(all)
	count := fmt.Sprint(least)
	if most > least {
		count = fmt.Sprintf("%d to %d", least, most)
	} else if least == 1 {
		each = "processor"
	}
	who := "each"
	if ranks > 1 {
		who = fmt.Sprintf("for each process of %d ranks", ranks)
	}
	return fmt.Sprintf("local ranks %s, %s %s %s", b.String(), count, each, who)
}
