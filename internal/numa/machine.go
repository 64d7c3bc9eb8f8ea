package numa

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Node is a NUMA node with a processor that this process may use.
type Node struct {
	ID    int
	Cores []CPUs // processors of each core that this process may use, by the first
}

// Size returns the number of processors.
func (n Node) Size() (size int) {
	for _, core := range n.Cores {
		size += len(core)
	}
	return size
}

// Read returns the nodes, by ID, that have processors of allowed. sys is the mounted sysfs: /sys. A machine
// without NUMA has one node. It is an error if the nodes are unknown, or do not contain each allowed processor once.
func Read(sys string, allowed CPUs) ([]Node, error) {
	dir := filepath.Join(sys, "devices/system/node")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("numa: %w", err)
	}
	var nodes []Node
	of := map[int]int{} // a processor's node
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), "node")
		id, err := strconv.Atoi(digits)
		if !ok || err != nil || id < 0 {
			continue // has_cpu, online, possible
		}
		cpus, err := readList(filepath.Join(dir, e.Name(), "cpulist"))
		if err != nil {
			return nil, err
		}
		n := Node{ID: id}
		cores := map[int]int{} // index in n.Cores, by the first processor of the core
		for _, cpu := range cpus {
			if !allowed.has(cpu) {
				continue
			}
			if other, twice := of[cpu]; twice {
				return nil, fmt.Errorf("numa: %s: processor %d is in nodes %d and %d", dir, cpu, other, id)
			}
			of[cpu] = id
			first, err := firstSibling(sys, cpu)
			if err != nil {
				return nil, err
			}
			at, known := cores[first]
			if !known {
				at = len(n.Cores)
				cores[first] = at
				n.Cores = append(n.Cores, nil)
			}
			n.Cores[at] = append(n.Cores[at], cpu)
		}
		if len(n.Cores) > 0 {
			nodes = append(nodes, n)
		}
	}
	for _, cpu := range allowed {
		if _, ok := of[cpu]; !ok {
			return nil, fmt.Errorf("numa: %s: processor %d is in no node", dir, cpu)
		}
	}
	slices.SortFunc(nodes, func(a, b Node) int { return a.ID - b.ID })
	return nodes, nil
}

// firstSibling returns the first processor of a processor's core; itself if the core is unknown.
func firstSibling(sys string, cpu int) (int, error) {
	siblings, err := readList(filepath.Join(sys, "devices/system/cpu", "cpu"+strconv.Itoa(cpu), "topology/thread_siblings_list"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cpu, nil
	case err != nil:
		return 0, err
	case !siblings.has(cpu):
		return cpu, nil
	}
	return siblings[0], nil
}

// DeviceNode returns the node of a PCI device, by its address as sysfs or NVIDIA's driver writes it (0000:3b:00.0,
// 00000000:3B:00.0). It is an error if the firmware does not say.
func DeviceNode(sys, address string) (int, error) {
	if domain, rest, ok := strings.Cut(strings.ToLower(address), ":"); ok {
		address = strings.TrimLeft(domain, "0")
		address = strings.Repeat("0", max(0, 4-len(address))) + address + ":" + rest
	}
	path := filepath.Join(sys, "bus/pci/devices", filepath.Base(address), "numa_node")
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("numa: %w", err)
	}
	id, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || id < 0 {
		return 0, fmt.Errorf("numa: %s: the node of the device is unknown", path)
	}
	return id, nil
}

func readList(path string) (CPUs, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("numa: %w", err)
	}
	cpus, err := ParseList(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cpus, nil
}
