package numa

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// machine writes the sysfs of testdata/NAME.txt to a directory, and returns it and the allowed processors.
func machine(t *testing.T, name string) (sys string, allowed CPUs) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	sys = t.TempDir()
	for line := range strings.Lines(string(text)) {
		path, content, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch path {
		case "#":
		case "allowed":
			if allowed, err = ParseList(content); err != nil {
				t.Fatal(err)
			}
		default:
			path = filepath.Join(sys, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return sys, allowed
}

func TestPlan(t *testing.T) {
	two := "local ranks "
	for _, c := range []struct {
		machine string
		policy  Policy
		workers int
		threads int // 0: all
		want    string
		cpus    []string // of the workers
	}{
		{"two-sockets", Auto, 2, 0, two + "0 on node 0, 1 on node 1, 64 processors each", []string{"0-31,64-95", "32-63,96-127"}},
		{"two-sockets", Auto, 4, 0, two + "0-1 on node 0, 2-3 on node 1, 32 processors each", []string{"0-15,64-79", "16-31,80-95", "32-47,96-111", "48-63,112-127"}},
		{"two-sockets", Auto, 3, 0, "not: 3 processes have unequal shares of 2 nodes", nil},
		{"two-sockets", OnNode, 3, 0, two + "0-1 on node 0, 2 on node 1, 32 to 64 processors each", []string{"0-15,64-79", "16-31,80-95", "32-63,96-127"}},
		{"two-sockets", Auto, 1, 0, "", nil},
		{"two-sockets", OnNode, 1, 0, "", nil},
		{"two-sockets", Unbound, 2, 0, "", nil},
		{"two-sockets", Auto, 2, 8, "not: 8 of 128 processors may be used at a time", nil},
		{"two-sockets", OnNode, 2, 8, two + "0 on node 0, 1 on node 1, 64 processors each", []string{"0-31,64-95", "32-63,96-127"}},
		{"four-nodes", Auto, 2, 0, two + "0 on nodes 0-1, 1 on nodes 2-3, 16 processors each", []string{"0-15", "16-31"}},
		{"four-nodes", Auto, 3, 0, "not: 3 processes have unequal shares of 4 nodes", nil},
		{"four-nodes", Auto, 4, 0, two + "0 on node 0, 1 on node 1, 2 on node 2, 3 on node 3, 8 processors each", []string{"0-7", "8-15", "16-23", "24-31"}},
		{"memory-node", Auto, 2, 0, two + "0 on node 0, 1 on node 1, 4 processors each", []string{"0-3", "4-7"}},
		{"memory-node", Auto, 8, 0, two + "0-3 on node 0, 4-7 on node 1, 1 processor each", []string{"0", "1", "2", "3", "4", "5", "6", "7"}},
		{"offline", Auto, 2, 0, "not: 2 processes have unequal shares of 2 nodes", nil},
		{"offline", OnNode, 4, 0, two + "0-1 on node 0, 2-3 on node 1, 1 to 4 processors each", []string{"0", "4,6", "1,3,9,11", "5,7,13,15"}},
		{"cpuset", Auto, 2, 0, "", nil},
		{"cpuset", OnNode, 2, 0, "not: this process may use the processors of one node", nil},
		{"part", Auto, 2, 0, "not: 2 processes have unequal shares of 2 nodes", nil},
		{"part", OnNode, 2, 0, two + "0 on node 0, 1 on node 1, 2 to 8 processors each", []string{"2-3", "8-15"}},
		{"many", Auto, 3, 0, two + "0 on nodes 0-3, 1 on nodes 4-7, 2 on nodes 8-11, 8 processors each", []string{"0-7", "8-15", "16-23"}},
	} {
		sys, allowed := machine(t, c.machine)
		nodes, err := Read(sys, allowed)
		if err != nil {
			t.Errorf("%s: %v", c.machine, err)
			continue
		}
		threads := c.threads
		if threads == 0 {
			threads = len(allowed)
		}
		all, why, err := Plan(c.policy, nodes, c.workers, nil, threads)
		if err != nil {
			t.Errorf("%s: %v", c.machine, err)
		}
		got := ""
		if why != "" {
			got = "not: " + why
		}
		if all != nil {
			got = Describe(all, 1)
		}
		var cpus []string
		for _, b := range all {
			cpus = append(cpus, b.CPUs.String())
		}
		if got != c.want || !slices.Equal(cpus, c.cpus) {
			t.Errorf("%s, %s, %d workers: %q %q, want %q %q", c.machine, c.policy, c.workers, got, cpus, c.want, c.cpus)
		}
	}
}

func TestUnknownNodes(t *testing.T) {
	if _, err := Read(t.TempDir(), CPUs{0}); err == nil {
		t.Error("nodes without sysfs")
	}
	for what, files := range map[string]map[string]string{
		"in no node":                     {"node0/cpulist": "0\n"},
		"is in nodes 0 and 1":            {"node0/cpulist": "0-1\n", "node1/cpulist": "1\n"},
		"no processor below":             {"node0/cpulist": "0-99999\n"},
		"no such file or directory":      {"node0/cpulist": "0-1\n", "node1/distance": "10\n"},
		"../cpu/cpu1/topology: no range": {"node0/cpulist": "0-1\n", "../cpu/cpu1/topology/thread_siblings_list": "1-0\n"},
	} {
		sys := t.TempDir()
		for name, text := range files {
			path := filepath.Join(sys, "devices/system/node", name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		what = strings.TrimPrefix(what, "../cpu/cpu1/topology: ")
		if nodes, err := Read(sys, CPUs{0, 1}); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v, %v", what, nodes, err)
		}
	}
}

// Workers get their shares of random machines: each has processors, none is shared if there are enough, all are used,
// equal arguments give equal shares, and SMT siblings stay together if there are enough cores.
func TestBind(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		nodes := randomNodes(r)
		workers := 1 + r.IntN(40)
		all, err := Bind(nodes, workers, nil)
		again, _ := Bind(nodes, workers, nil)
		if err != nil {
			t.Fatal(err)
		}
		used := map[int]int{} // how often
		of := map[int]int{}   // workers of a node
		for w, b := range all {
			if len(b.CPUs) == 0 || !slices.Equal(b.CPUs, again[w].CPUs) || !slices.IsSorted(b.CPUs) || !slices.IsSorted(b.Nodes) {
				t.Fatalf("%v, %d workers: worker %d: %v, then %v", nodes, workers, w, b, again[w])
			}
			if w > 0 && b.Nodes[0] < all[w-1].Nodes[0] {
				t.Fatalf("%v: worker %d on %v, after one on %v", nodes, w, b.Nodes, all[w-1].Nodes)
			}
			for _, cpu := range b.CPUs {
				used[cpu]++
			}
			for _, n := range b.Nodes {
				of[n]++
			}
		}
		for _, n := range nodes {
			for _, core := range n.Cores {
				for _, cpu := range core {
					if of[n.ID] <= n.Size() && used[cpu] != 1 || used[cpu] == 0 {
						t.Fatalf("%v, %d workers: %d use processor %d of node %d, with %d workers: %v", nodes, workers, used[cpu], cpu, n.ID, of[n.ID], all)
					}
				}
				for _, b := range all {
					if of[n.ID] <= len(n.Cores) && b.CPUs.has(core[0]) != b.CPUs.has(core[len(core)-1]) {
						t.Fatalf("%v, %d workers: core %v is divided", nodes, workers, core)
					}
				}
			}
		}
		if most, least := slices.Max(counts(nodes, of)), slices.Min(counts(nodes, of)); most-least > 1 {
			t.Fatalf("%d workers on %d nodes: %v", workers, len(nodes), of)
		}
	}
}

func counts(nodes []Node, of map[int]int) (all []int) {
	for _, n := range nodes {
		all = append(all, of[n.ID])
	}
	return all
}

func randomNodes(r *rand.Rand) (nodes []Node) {
	cpu, id := 0, 0
	for range 1 + r.IntN(8) {
		id += 1 + r.IntN(3)
		n := Node{ID: id}
		for range 1 + r.IntN(9) {
			var core CPUs
			for range 1 + r.IntN(2) {
				cpu += 1 + r.IntN(2)
				core = append(core, cpu)
			}
			n.Cores = append(n.Cores, core)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func TestDevices(t *testing.T) {
	sys, allowed := machine(t, "two-sockets")
	nodes, err := Read(sys, allowed)
	if err != nil {
		t.Fatal(err)
	}
	var near []int
	for _, address := range []string{"00000000:D8:00.0", "0000:d8:00.0", "00000000:3B:00.0"} {
		n, err := DeviceNode(sys, address)
		if err != nil {
			t.Fatal(err)
		}
		near = append(near, n)
	}
	all, _, err := Plan(OnNode, nodes, 3, near, len(allowed))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := Describe(all, 1), "local ranks 0-1 on node 1, 2 on node 0, 32 to 64 processors each"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, address := range []string{"00000000:5E:00.0", "00000000:11:00.0", "", "../../../x"} {
		if n, err := DeviceNode(sys, address); err == nil {
			t.Errorf("%q is on node %d", address, n)
		}
	}
	if _, _, err := Plan(OnNode, nodes, 2, []int{0, 7}, len(allowed)); err == nil {
		t.Error("a device on a node without processors")
	}
}

func FuzzParseList(f *testing.F) {
	for _, text := range []string{"", "\n", "0", "0-3,8", "0-31,64-95\n", "8191", "8192", "3-1", "0-", "-1", "1,,2", "a", "0-3:1/2", "99999999999999999999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cpus, err := ParseList(text)
		if err != nil {
			return
		}
		for i, cpu := range cpus {
			if cpu < 0 || cpu >= maxCPUs || i > 0 && cpu <= cpus[i-1] {
				t.Fatalf("%q: %v", text, cpus)
			}
		}
		again, err := ParseList(cpus.String())
		if err != nil || !slices.Equal(cpus, again) {
			t.Fatalf("%q: %v as %q: %v, %v", text, cpus, cpus.String(), again, err)
		}
	})
}
