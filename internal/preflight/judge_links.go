package preflight

import (
	"fmt"
	"slices"

	"trireme/internal/host"
)

// way is a directed link.
type way struct{ from, to int }

// state is empty if it is not known.
func (r *Report) state(from, to int) LinkState { return r.Links[from][to].State }

// common returns the one host that all ways have; -1 if there is none, or if one pair has all of them.
func (r *Report) common(ways []way) int {
	peers := map[int]map[int]bool{}
	for _, w := range ways {
		for _, h := range []way{w, {w.to, w.from}} {
			if peers[h.from] == nil {
				peers[h.from] = map[int]bool{}
			}
			peers[h.from][h.to] = true
		}
	}
	for h := range r.Hosts {
		if len(peers[h]) > 1 && !slices.ContainsFunc(ways, func(w way) bool { return w.from != h && w.to != h }) {
			return h
		}
	}
	return -1
}

// judgeLinks finds who does not reach whom. If all failures have one host in common, the finding is about it.
func (r *Report) judgeLinks() {
	var bad []way
	for i := range r.Links {
		for j := range r.Links[i] {
			if s := r.state(i, j); i != j && s != Connected && s != "" {
				bad = append(bad, way{i, j})
			}
		}
	}
	if len(bad) == 0 {
		return
	}
	if h := r.common(bad); h >= 0 && r.judgeHost(h, bad) {
		return
	}
	for k, w := range bad {
		back := way{w.to, w.from}
		if i := slices.Index(bad, back); i >= 0 && i < k {
			continue // with the other direction
		}
		r.judgePair(w.from, w.to)
	}
}

// judgeHost reports a host that is the cause of all failures alike. ok is false if they differ.
func (r *Report) judgeHost(h int, bad []way) (ok bool) {
	in, out := map[LinkState][]int{}, map[LinkState][]int{}
	for _, w := range bad {
		if w.to == h {
			in[r.state(w.from, h)] = append(in[r.state(w.from, h)], w.from)
		} else {
			out[r.state(h, w.to)] = append(out[r.state(h, w.to)], w.to)
		}
	}
	others := len(r.Hosts) - 1
	at := r.at(h)
	switch {
	case len(in[OtherKey])+len(out[OtherKey]) > 0 && len(in[OtherKey]) >= others/2:
		r.add(host.Problem, "secret", fmt.Sprintf("%s has another secret than %s", at, r.names(in[OtherKey])), fmt.Sprintf("copy the secret's file to %s (mode 0600), or start all hosts with the same one", r.Hosts[h].Name), h)
	case len(in[Failed]) == others && r.Links[in[Failed][0]][h].Err != "":
		r.add(host.Problem, "network", fmt.Sprintf("%s cannot take part: %s", at, r.Links[in[Failed][0]][h].Err), "an address of that host: parallel.interface, NCCL_SOCKET_IFNAME or --local-addr", h)
	case len(out) == 0 && len(in) == 1:
		for s, from := range in {
			r.add(host.Problem, "network", fmt.Sprintf("%s cannot reach %s (%s); %s reaches all others: a firewall on %s", r.names(from), at, s, r.Hosts[h].Name, r.Hosts[h].Name), allow(r, h), append([]int{h}, from...)...)
		}
	case len(in) == 0 && len(out[NoRoute]) > 0 && len(out) == 1:
		r.add(host.Problem, "network", fmt.Sprintf("%s has no route to %s", at, r.names(out[NoRoute])), fmt.Sprintf("ip route get %s on %s", r.Hosts[out[NoRoute][0]].Address, r.Hosts[h].Name), h)
	case len(in[TimedOut])+len(in[NoRoute]) == others && len(out[TimedOut])+len(out[NoRoute]) == others:
		r.add(host.Problem, "network", fmt.Sprintf("%s is cut off: no other host reaches it, and it reaches none (%s)", at, r.state((h+1)%len(r.Hosts), h)), fmt.Sprintf("the link and the firewall of %s: ip address, ip route, and the security group of the cloud", r.Hosts[h].Name), h)
	default:
		return false
	}
	return true
}

// allow is the advice for a firewall.
func allow(r *Report, h int) string {
	return fmt.Sprintf("allow TCP from the other hosts, all ports, on %s: iptables -S or nft list ruleset there, or the security group of the cloud", r.Hosts[h].Name)
}

// judgePair reports two hosts, where at least one does not reach the other.
func (r *Report) judgePair(i, j int) {
	if s := r.state(i, j); s == Connected || s == "" {
		i, j = j, i
	}
	s, t := r.state(i, j), r.state(j, i)
	a, b := r.at(i), r.at(j)
	add := func(text, try string) { r.add(host.Problem, "network", text, try, i, j) }
	if t == NoRoute && s != NoRoute { // the host without a route is the cause
		i, j, s, t, a, b = j, i, t, s, b, a
	}
	switch {
	case s == OtherKey || t == OtherKey:
		r.add(host.Problem, "secret", fmt.Sprintf("%s and %s have different secrets", a, b), "copy the secret's file to both (mode 0600)", i, j)
	case s == NoRoute:
		add(fmt.Sprintf("%s has no route to %s (%s)", a, b, r.Links[i][j].Err), fmt.Sprintf("ip route get %s on %s", r.Hosts[j].Address, r.Hosts[i].Name))
	case s == OtherServer || t == OtherServer:
		add(fmt.Sprintf("another program answers %s at the address of %s", a, b), fmt.Sprintf("the address that %s has on the others' network: parallel.interface, NCCL_SOCKET_IFNAME or --local-addr", r.Hosts[j].Name))
	case t == Connected && (s == Refused || s == TimedOut):
		add(fmt.Sprintf("%s cannot reach %s (%s); %s reaches %s: a firewall on %s, or between them", a, b, s, r.Hosts[j].Name, r.Hosts[i].Name, r.Hosts[j].Name),
			fmt.Sprintf("allow TCP from %s on %s, all ports: iptables -S or nft list ruleset there, or the security group of the cloud", r.Hosts[i].Address, r.Hosts[j].Name))
	case t == "":
		add(fmt.Sprintf("%s cannot reach %s (%s)", a, b, reason(s, r.Links[i][j].Err)), allow(r, j))
	case s == TimedOut && t == TimedOut:
		add(fmt.Sprintf("%s and %s cannot reach each other (timed out): a firewall, or no link between them", a, b), fmt.Sprintf("ping %s on %s, and allow TCP between both hosts, all ports", r.Hosts[j].Address, r.Hosts[i].Name))
	default:
		add(fmt.Sprintf("%s cannot reach %s (%s), and back: %s", a, b, reason(s, r.Links[i][j].Err), reason(t, r.Links[j][i].Err)), allow(r, j))
	}
}

func reason(s LinkState, err string) string {
	if s == Failed {
		return err
	}
	return string(s)
}

// Bandwidths in bytes per second.
const (
	unusable = 100e6 / 8 // a problem on any network
	slow     = 1e9 / 8   // a note
	fraction = 3         // of the median: a link that is slower than the others, if it is below
	fast     = 5e9 / 8   // where the load of a host can explain the difference
)

// judgeSpeed finds links that are slow, for training or compared with the others. Hosts on one machine have none.
func (r *Report) judgeSpeed() {
	if isLoopback(r.Hosts[0].Address) {
		return
	}
	var all []int64
	for i := range r.Links {
		for j, l := range r.Links[i] {
			if i != j && l.State == Connected && l.Err == "" {
				all = append(all, l.Speed)
			}
		}
	}
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	median := all[len(all)/2]
	var bad []way
	least := median
	for i := range r.Links {
		for j, l := range r.Links[i] {
			if i != j && l.State == Connected && l.Err == "" && (l.Speed < unusable || l.Speed < min(median/fraction, fast)) {
				bad = append(bad, way{i, j})
				least = min(least, l.Speed)
			}
		}
	}
	usual := fmt.Sprintf("; the median of all links is %s", bits(median))
	if len(bad) == len(all) {
		usual = ""
	}
	for _, w := range bad {
		if h := r.common(bad); h >= 0 {
			name := r.Hosts[h].Name
			r.add(host.Problem, "bandwidth", fmt.Sprintf("the links of %s are slow: from %s%s", r.at(h), bits(least), usual), fmt.Sprintf("ethtool of its interface (speed, duplex, errors), the cable and the switch port of %s, or parallel.interface for a faster one", name), h)
			return
		}
		text := fmt.Sprintf("%s to %s is slow: %s, the other direction %s%s", r.at(w.from), r.at(w.to), bits(r.Links[w.from][w.to].Speed), bits(r.Links[w.to][w.from].Speed), usual)
		r.add(host.Problem, "bandwidth", text, fmt.Sprintf("ethtool of the interfaces of %s and %s (speed, duplex, errors), other traffic, or parallel.interface for a faster one", r.Hosts[w.from].Name, r.Hosts[w.to].Name), w.from, w.to)
	}
	if len(bad) == 0 && median < slow {
		r.add(host.Note, "bandwidth", fmt.Sprintf("the links carry %s: communication will take most of a step of a large model", bits(median)), "trireme plan, which has the traffic per step of each strategy, or parallel.interface for a faster network")
	}
}

// bits formats bytes per second as networks are specified.
func bits(bytesPerSecond int64) string {
	switch b := float64(bytesPerSecond) * 8; {
	case b >= 1e9:
		return fmt.Sprintf("%.3g Gbit/s", b/1e9)
	case b > 0:
		return fmt.Sprintf("%.3g Mbit/s", b/1e6)
	}
	return "no data within the time limit"
}
