package preflight

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"trireme/internal/host"
	"trireme/monitor"
)

// judgeSoftware compares what must be equal on all hosts, with host 0 or the majority as the reference.
func (r *Report) judgeSoftware() {
	r.differ(host.Problem, "version", func(h Host) string { return h.Facts.Versions.Program },
		"%s run trireme %s, %s %s", "the same program on all hosts")
	r.differ(host.Problem, "configuration", func(h Host) string { return h.Digest },
		"%s have another configuration (hash %.12s) than %s (%.12s)", "copy the configuration file to all hosts, or put it on a shared disk")
	r.differ(host.Note, "processors", func(h Host) string { return h.Facts.Versions.Platform + " " + h.Facts.Versions.Kernels },
		"%s compute with loops of %s, %s with %s: results differ in the last bits from those of equal hosts", "hosts with processors of one kind, or device.instructions with a set that all have")
}

// differ reports hosts whose value is not that of most hosts. format has the names of both groups, each with
// its value.
func (r *Report) differ(state host.State, check string, value func(Host) string, format, try string) {
	groups := map[string][]int{}
	usual := value(r.Hosts[0])
	for i, h := range r.Hosts {
		v := value(h)
		if groups[v] = append(groups[v], i); len(groups[v]) > len(groups[usual]) {
			usual = v
		}
	}
	for _, h := range r.Hosts { // in the order of hosts
		v := value(h)
		if all, ok := groups[v]; ok && v != usual {
			text := fmt.Sprintf(format, r.names(all), v, r.names(groups[usual]), usual)
			r.add(state, check, singular(text, len(all)), try, all...)
			delete(groups, v)
		}
	}
}

// singular adapts the verb of a sentence about one host.
func singular(text string, n int) string {
	if n != 1 {
		return text
	}
	for _, v := range [][2]string{{" run trireme", " runs trireme"}, {" have another", " has another"}, {" compute with", " computes with"}, {" have packets", " has packets"}} {
		text = strings.Replace(text, v[0], v[1], 1)
	}
	return text
}

// names lists hosts: "n1", "n1 and n2", "n1, n2 and 5 others".
func (r *Report) names(hosts []int) string {
	var all []string
	for _, h := range hosts {
		all = append(all, r.Hosts[h].Name)
	}
	if n := len(all); n > 4 {
		all = append(all[:3:3], fmt.Sprintf("%d others", n-3))
	}
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}

// at is a host with its address: "n1 (10.0.0.2)".
func (r *Report) at(h int) string {
	return fmt.Sprintf("%s (%s)", r.Hosts[h].Name, r.Hosts[h].Address)
}

// judgeNames checks that each host's name is an address of it on every other host.
func (r *Report) judgeNames() {
	for j, h := range r.Hosts {
		name := cmp.Or(h.Facts.Name, h.Name)
		var unknown []int
		wrong := map[string][]int{}
		for i := range r.Hosts {
			if i == j {
				continue
			}
			switch l := r.Links[i][j]; {
			case l.NameErr != "":
				unknown = append(unknown, i)
			case len(l.Names) > 0 && !slices.ContainsFunc(l.Names, h.has):
				wrong[l.Names[0]] = append(wrong[l.Names[0]], i)
			}
		}
		if len(unknown) > 0 {
			i := unknown[0]
			r.add(host.Note, "names", fmt.Sprintf("the name %s of %s does not resolve on %s (%s): MASTER_ADDR=%s would fail there", name, h.Address, r.names(unknown), r.Links[i][j].NameErr, name),
				fmt.Sprintf("the line %q in /etc/hosts of %s, or addresses instead of names", h.Address+" "+name, r.names(unknown)), append([]int{j}, unknown...)...)
		}
		for i := range r.Hosts { // in the order of hosts
			if i == j || len(r.Links[i][j].Names) == 0 {
				continue
			}
			a := r.Links[i][j].Names[0]
			if all, ok := wrong[a]; ok {
				why := "another address"
				if ip, err := netip.ParseAddr(a); err == nil && ip.IsLoopback() {
					why = "a loopback address"
				}
				r.add(host.Problem, "names", fmt.Sprintf("%s is %s on %s, %s: its address is %s", name, a, r.names(all), why, h.Address),
					fmt.Sprintf("the line %q in /etc/hosts of %s instead of that with %s", h.Address+" "+name, r.names(all), a), append([]int{j}, all...)...)
				delete(wrong, a)
			}
		}
		if own := h.Facts.Resolution; own.Loopback() && !isLoopback(h.Address) {
			r.add(host.Note, "names", fmt.Sprintf("%s is %s on itself, a loopback address: with MASTER_ADDR=%s rank 0 on that host refuses to listen, because the others would not reach it", name, own.Addresses[0], name),
				fmt.Sprintf("%s as the address, or the line %q in /etc/hosts of %s in front of that with %s", h.Address, h.Address+" "+name, h.Name, own.Addresses[0]), j)
		}
	}
}

func isLoopback(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && ip.IsLoopback()
}

// has reports whether an address is one of the host's.
func (h Host) has(address string) bool {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	if ip = ip.WithZone("").Unmap(); ip.IsLoopback() {
		return isLoopback(h.Address) // hosts on one machine
	}
	for _, i := range h.Facts.Interfaces {
		for _, p := range i.Addresses {
			if p.Addr().WithZone("").Unmap() == ip {
				return true
			}
		}
	}
	return address == h.Address
}

// mtu returns the interface of the host's address and its MTU; empty if unknown.
func (h Host) mtu() (name string, bytes int) {
	for _, i := range h.Facts.Interfaces {
		for _, p := range i.Addresses {
			if p.Addr().String() == h.Address {
				return i.Name, i.MTU
			}
		}
	}
	return "", 0
}

// judgePackets finds links that lose large packets, and hosts whose interfaces have different MTUs.
func (r *Report) judgePackets() {
	for i := range r.Links {
		for j, l := range r.Links[i] {
			if i == j || l.State != Connected || l.Err == "" {
				continue
			}
			a, m := r.Hosts[i].mtu()
			b, n := r.Hosts[j].mtu()
			r.add(host.Problem, "packets", fmt.Sprintf("large packets from %s to %s are lost: messages of %d bytes arrive, larger ones do not. %s of %s has MTU %d, %s of %s has %d; something between them carries less", r.at(i), r.at(j), l.Largest, a, r.Hosts[i].Name, m, b, r.Hosts[j].Name, n),
				fmt.Sprintf("ip link set %s mtu %d on %s, or raise the MTU of switches and tunnels", a, smaller(l.Largest), r.Hosts[i].Name), i, j)
		}
	}
	r.differ(host.Note, "packets", func(h Host) string {
		if _, n := h.mtu(); n > 0 {
			return fmt.Sprintf("%d", n)
		}
		return "an unknown number of"
	}, "%s have packets of %s bytes (MTU), %s of %s", "the same MTU on all hosts")
}

// smaller returns the usual MTU of a network that carries messages of n bytes, and not the next of sizes.
func smaller(n int) int {
	switch {
	case n >= 4000:
		return 4000
	case n >= 1300:
		return 1500
	}
	return 1280 // the least of IPv6
}

// Offsets of clocks below this are not worth a note: logs have milliseconds, and NTP keeps hosts closer.
const someOffset = 100 * time.Millisecond

// judgeClocks compares the clocks with that of host 0.
func (r *Report) judgeClocks() {
	for j, l := range r.Links[0] {
		if j == 0 || l.State != Connected || l.Offset.Abs() < someOffset+l.Latency {
			continue
		}
		way := "ahead of"
		if l.Offset < 0 {
			way = "behind"
		}
		r.add(host.Note, "clock", fmt.Sprintf("the clock of %s is %v %s that of %s: times in logs do not compare", r.Hosts[j].Name, l.Offset.Abs().Round(time.Millisecond), way, r.Hosts[0].Name),
			fmt.Sprintf("timedatectl set-ntp true, or chronyc makestep, on %s", r.Hosts[j].Name), j)
	}
}

// judgeSums reports hosts on which the all-reduce failed.
func (r *Report) judgeSums() {
	var bad []int
	for i, s := range r.Sums {
		if s.Err != "" || s.Got != s.Want {
			bad = append(bad, i)
		}
	}
	if len(bad) == 0 {
		return
	}
	s := r.Sums[bad[0]]
	text := fmt.Sprintf("the all-reduce over TCP failed on %s: %s", r.names(bad), s.Err)
	if s.Err == "" {
		text = fmt.Sprintf("the all-reduce over TCP gives %v on %s instead of %v", s.Got, r.names(bad), s.Want)
	}
	r.add(host.Problem, "all-reduce", text, "trireme bench collectives on each host alone, and the same program on all", bad...)
}

// judgeHosts adds the problems of single hosts, and hosts that are smaller than the others.
func (r *Report) judgeHosts() {
	for i, h := range r.Hosts {
		for _, f := range h.Facts.Findings() {
			if f.State == host.Problem {
				r.add(host.Problem, f.Check, h.Name+": "+f.Text, f.Try, i)
			}
		}
	}
	for i, h := range r.Hosts {
		threads, memory := h.Facts.Cores.Threads, h.Facts.Memory.Available
		var most int
		var largest int64
		for _, o := range r.Hosts {
			most, largest = max(most, o.Facts.Cores.Threads), max(largest, o.Facts.Memory.Available)
		}
		switch {
		case threads > 0 && threads*2 <= most:
			r.add(host.Note, "cores", fmt.Sprintf("%s has %d threads for computing, others up to %d: they wait for it in every step", h.Name, threads, most), "fewer ranks on that host (slots in the hostfile), or hosts of one kind", i)
		case memory > 0 && memory*2 <= largest:
			r.add(host.Note, "memory", fmt.Sprintf("%s has %s available, others up to %s: its ranks limit the size of the model", h.Name, monitor.Bytes(memory), monitor.Bytes(largest)), "end other programs there, or fewer ranks on that host", i)
		}
	}
}
