// Package hostfile reads the hosts of a job in the format of the deepspeed launcher and of Open MPI:
//
//	n0 slots=4  # workers on this host
//	n1 slots=4
//
// and selects hosts and devices as --include and --exclude do.
package hostfile

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"trireme/fault"
)

// Host is a host of a job. Names are as in the file: a name, an alias of ssh's configuration, or an address.
type Host struct {
	Name    string
	Slots   int   // workers, at least 1
	Devices []int // the selected devices; nil: no selection
}

const (
	maxHosts = 1 << 16
	maxSlots = 1 << 12
)

// Parse reads a hostfile's text. Errors start with file:line.
func Parse(file, text string) ([]Host, error) {
	var hosts []Host
	lines := map[string]int{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		h := Host{Name: words[0], Slots: 1}
		bad := func(text string, args ...any) ([]Host, error) {
			return nil, fault.Try(fmt.Errorf("%s:%d: "+text, append([]any{file, number}, args...)...), "NAME slots=N")
		}
		if err := checkName(h.Name); err != nil {
			return bad("%w", err)
		}
		for i, w := range words[1:] {
			value, ok := strings.CutPrefix(w, "slots=")
			n, err := strconv.Atoi(value)
			switch {
			case !ok:
				return bad("%q is not slots=N", w)
			case i > 0:
				return bad("slots twice")
			case err != nil || n < 1 || n > maxSlots:
				return bad("slots=%s is not a number from 1 to %d", value, maxSlots)
			}
			h.Slots = n
		}
		if first, twice := lines[h.Name]; twice {
			return bad("host %s is also in line %d", h.Name, first)
		}
		if len(hosts) == maxHosts {
			return nil, fmt.Errorf("%s:%d: more than %d hosts", file, number, maxHosts)
		}
		lines[h.Name] = number
		hosts = append(hosts, h)
	}
	if len(hosts) == 0 {
		return nil, fault.Try(fmt.Errorf("%s: no hosts", file), "a line NAME slots=N for each host")
	}
	return hosts, nil
}

// checkName refuses names that ssh would read as an option, and those that --include cannot contain.
func checkName(name string) error {
	for i, c := range name {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_':
		case i > 0 && strings.ContainsRune(".-", c):
		default:
			return fmt.Errorf("%q is not a host's name or address", name)
		}
	}
	if name == "" {
		return errors.New("no host's name")
	}
	return nil
}

// Select returns the hosts that include names, or those that exclude does not name, in the order of hosts, with
// the deepspeed launcher's syntax: h1:0,2@h2 is devices 0 and 2 of h1, and all of h2. Errors start with the flag.
// Only one of include and exclude may be set.
func Select(hosts []Host, include, exclude string) ([]Host, error) {
	if include != "" && exclude != "" {
		return nil, fault.Try(errors.New("--include and --exclude contradict each other"), "one of them")
	}
	flag, text := "--include", include
	if exclude != "" {
		flag, text = "--exclude", exclude
	}
	if text == "" {
		return hosts, nil
	}
	chosen, err := parseFilter(hosts, text)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", flag, text, err)
	}
	var out []Host
	for _, h := range hosts {
		devices, named := chosen[h.Name]
		switch {
		case flag == "--include" && !named, flag == "--exclude" && named && devices == nil:
			continue
		case flag == "--exclude" && named:
			h.Devices = except(h.Slots, devices)
			h.Slots = len(h.Devices)
		case named && devices != nil:
			h.Devices, h.Slots = devices, len(devices)
		}
		if h.Slots > 0 {
			out = append(out, h)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s %q leaves no host", flag, text)
	}
	return out, nil
}

// parseFilter returns the devices by host; nil for all of a host.
func parseFilter(hosts []Host, text string) (map[string][]int, error) {
	chosen := map[string][]int{}
	for part := range strings.SplitSeq(text, "@") {
		name, list, some := strings.Cut(strings.TrimSpace(part), ":")
		i := slices.IndexFunc(hosts, func(h Host) bool { return h.Name == name })
		switch _, twice := chosen[name]; {
		case i < 0:
			return nil, fault.Try(fmt.Errorf("no host %q in the hostfile", name), "one of its hosts, such as %s:0@...", hosts[0].Name)
		case twice:
			return nil, fmt.Errorf("host %s twice", name)
		}
		chosen[name] = nil
		if !some {
			continue
		}
		devices := []int{}
		for d := range strings.SplitSeq(list, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(d))
			switch {
			case err != nil:
				return nil, fault.Try(fmt.Errorf("%q is not a device's number", d), "%s:0,2", name)
			case n < 0 || n >= hosts[i].Slots:
				return nil, fmt.Errorf("host %s has slots 0 to %d, not %d", name, hosts[i].Slots-1, n)
			case slices.Contains(devices, n):
				return nil, fmt.Errorf("device %d of host %s twice", n, name)
			}
			devices = append(devices, n)
		}
		slices.Sort(devices)
		chosen[name] = devices
	}
	return chosen, nil
}

func except(slots int, devices []int) []int {
	out := []int{}
	for n := range slots {
		if !slices.Contains(devices, n) {
			out = append(out, n)
		}
	}
	return out
}
