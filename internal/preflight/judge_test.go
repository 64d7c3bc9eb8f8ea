package preflight

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"trireme/internal/host"
	"trireme/internal/netif"
)

// healthy returns a report of n hosts with measurements and without problems.
func healthy(n int) *Report {
	var all []about
	links := make([][]Link, n)
	for i := range n {
		a := fmt.Sprintf("10.0.0.%d", i+1)
		all = append(all, about{Name: fmt.Sprintf("n%d", i), Address: a, Facts: host.Facts{
			Memory:     host.Memory{Available: 16 << 30},
			Cores:      host.Cores{Threads: 8},
			Interfaces: []netif.Interface{{Name: "eth0", Up: true, MTU: 1500, Addresses: []netip.Prefix{netip.MustParsePrefix(a + "/24")}}},
		}})
		for j := range n {
			l := Link{}
			if j != i {
				l = Link{State: Connected, Latency: 50 * time.Microsecond, Largest: 64 << 10, Speed: 1e9 + int64(i), Names: []string{fmt.Sprintf("10.0.0.%d", j+1)}}
			}
			links[i] = append(links[i], l)
		}
	}
	return newReport(all, links)
}

func fail(s LinkState, ways ...way) func(*Report) {
	return func(r *Report) {
		for _, w := range ways {
			r.Links[w.from][w.to] = Link{State: s, Err: "dial: " + string(s), Names: r.Links[w.from][w.to].Names}
		}
	}
}

func speed(bytes int64, ways ...way) func(*Report) {
	return func(r *Report) {
		for _, w := range ways {
			r.Links[w.from][w.to].Speed = bytes
		}
	}
}

// TestJudge: each defect is one finding that names hosts and remedy, among two hosts and among four.
func TestJudge(t *testing.T) {
	type defect = []func(*Report)
	for name, c := range map[string]struct {
		n      int
		spoil  defect
		check  string
		state  host.State
		text   string
		try    string
		hosts  string
		others int // findings beside it
	}{
		"reject one way": {2, defect{fail(Refused, way{0, 1})}, "network", host.Problem, "n0 (10.0.0.1) cannot reach n1 (10.0.0.2) (refused); n1 reaches n0: a firewall on n1, or between them", "allow TCP from 10.0.0.1 on n1", "n0 n1", 0},
		"drop one way":   {4, defect{fail(TimedOut, way{2, 1})}, "network", host.Problem, "n2 (10.0.0.3) cannot reach n1 (10.0.0.2) (timed out); n1 reaches n2", "allow TCP from 10.0.0.3 on n1", "n2 n1", 0},
		"drop both ways": {4, defect{fail(TimedOut, way{2, 1}, way{1, 2})}, "network", host.Problem, "n1 (10.0.0.2) and n2 (10.0.0.3) cannot reach each other (timed out)", "ping 10.0.0.3 on n1", "n1 n2", 0},
		"no route":       {2, defect{fail(NoRoute, way{1, 0}), fail(TimedOut, way{0, 1})}, "network", host.Problem, "n1 (10.0.0.2) has no route to n0 (10.0.0.1)", "ip route get 10.0.0.1 on n1", "n1 n0", 0},
		"no route back":  {2, defect{fail(NoRoute, way{0, 1}), fail(TimedOut, way{1, 0})}, "network", host.Problem, "n0 (10.0.0.1) has no route to n1 (10.0.0.2)", "ip route get 10.0.0.2 on n0", "n0 n1", 0},
		"firewall of a host": {4, defect{fail(Refused, way{0, 2}, way{1, 2}, way{3, 2})}, "network", host.Problem, "n0, n1 and n3 cannot reach n2 (10.0.0.3) (refused); n2 reaches all others: a firewall on n2",
			"on n2: iptables -S", "n2 n0 n1 n3", 0},
		"cut off": {4, defect{fail(TimedOut, way{0, 3}, way{1, 3}, way{2, 3}, way{3, 0}, way{3, 1}, way{3, 2})}, "network", host.Problem, "n3 (10.0.0.4) is cut off: no other host reaches it, and it reaches none (timed out)",
			"security group", "n3", 0},
		"no routes": {4, defect{fail(NoRoute, way{3, 0}, way{3, 1}, way{3, 2})}, "network", host.Problem, "n3 (10.0.0.4) has no route to n0, n1 and n2", "ip route get 10.0.0.1 on n3", "n3", 0},
		"secret":    {3, defect{fail(OtherKey, way{0, 1}, way{2, 1}, way{1, 0}, way{1, 2})}, "secret", host.Problem, "n1 (10.0.0.2) has another secret than n0 and n2", "mode 0600", "n1", 0},
		"program":   {2, defect{fail(OtherServer, way{0, 1})}, "network", host.Problem, "another program answers n0 (10.0.0.1) at the address of n1", "parallel.interface", "n0 n1", 0},
		"two pairs": {4, defect{fail(TimedOut, way{0, 1}), fail(Refused, way{2, 3})}, "network", host.Problem, "n2 (10.0.0.3) cannot reach n3 (10.0.0.4) (refused)", "allow", "n2 n3", 1},
		"loopback name": {3, defect{func(r *Report) {
			r.Links[0][2].Names = []string{"127.0.1.1"}
			r.Links[1][2].Names = []string{"127.0.1.1"}
		}}, "names", host.Problem,
			"n2 is 127.0.1.1 on n0 and n1, a loopback address: its address is 10.0.0.3", `the line "10.0.0.3 n2" in /etc/hosts of n0 and n1 instead of that with 127.0.1.1`, "n2 n0 n1", 0},
		"old name":     {2, defect{func(r *Report) { r.Links[0][1].Names = []string{"10.0.0.77"} }}, "names", host.Problem, "n1 is 10.0.0.77 on n0, another address", "10.0.0.2 n1", "n1 n0", 0},
		"unknown name": {2, defect{func(r *Report) { r.Links[0][1].Names, r.Links[0][1].NameErr = nil, "no such host" }}, "names", host.Note, "the name n1 of 10.0.0.2 does not resolve on n0 (no such host)", "/etc/hosts of n0", "n1 n0", 0},
		"Debian": {2, defect{func(r *Report) { r.Hosts[1].Facts.Resolution = host.Resolution{Addresses: []string{"127.0.1.1"}} }}, "names", host.Note,
			"n1 is 127.0.1.1 on itself, a loopback address: with MASTER_ADDR=n1 rank 0", "10.0.0.2 as the address", "n1", 0},
		"MTU on the way": {2, defect{func(r *Report) {
			r.Links[0][1].Err, r.Links[0][1].Largest = "i/o timeout", 1300
			r.Hosts[0].Facts.Interfaces[0].MTU, r.Hosts[1].Facts.Interfaces[0].MTU = 9000, 9000
		}}, "packets", host.Problem, "large packets from n0 (10.0.0.1) to n1 (10.0.0.2) are lost: messages of 1300 bytes arrive, larger ones do not. eth0 of n0 has MTU 9000, eth0 of n1 has 9000", "mtu 1500 on n0", "n0 n1", 0},
		"MTU of a host":  {3, defect{func(r *Report) { r.Hosts[2].Facts.Interfaces[0].MTU = 9000 }}, "packets", host.Note, "n2 has packets of 9000 bytes (MTU), n0 and n1 of 1500", "the same MTU", "n2", 0},
		"slow host":      {4, defect{speed(12e6, way{3, 0}, way{3, 1}, way{3, 2}, way{0, 3})}, "bandwidth", host.Problem, "the links of n3 (10.0.0.4) are slow: from 96 Mbit/s; the median of all links is 8 Gbit/s", "ethtool", "n3", 0},
		"slow link":      {2, defect{speed(5e6, way{0, 1})}, "bandwidth", host.Problem, "n0 (10.0.0.1) to n1 (10.0.0.2) is slow: 40 Mbit/s, the other direction 8 Gbit/s", "ethtool", "n0 n1", 0},
		"lost bandwidth": {2, defect{speed(0, way{0, 1})}, "bandwidth", host.Problem, "is slow: no data within the time limit", "ethtool", "n0 n1", 0},
		"slow network":   {2, defect{speed(60e6, way{0, 1}, way{1, 0})}, "bandwidth", host.Note, "the links carry 480 Mbit/s", "trireme plan", "", 0},
		"clock":          {3, defect{func(r *Report) { r.Links[0][2].Offset = 12*time.Second + 345678*time.Microsecond }}, "clock", host.Note, "the clock of n2 is 12.346s ahead of that of n0", "on n2", "n2", 0},
		"sum":            {2, defect{func(r *Report) { r.Sums = []Sum{{Want: 3, Got: 3}, {Want: 3, Got: 4}} }}, "all-reduce", host.Problem, "gives 4 on n1 instead of 3", "bench collectives", "n1", 0},
		"sum fails":      {2, defect{func(r *Report) { r.Sums = []Sum{{Want: 3, Err: "time-out"}, {Want: 3, Got: 3}} }}, "all-reduce", host.Problem, "failed on n0: time-out", "bench collectives", "n0", 0},
		"small host":     {2, defect{func(r *Report) { r.Hosts[1].Facts.Cores.Threads = 2 }}, "cores", host.Note, "n1 has 2 threads for computing, others up to 8", "slots", "n1", 0},
		"little memory":  {2, defect{func(r *Report) { r.Hosts[1].Facts.Memory.Available = 4 << 30 }}, "memory", host.Note, "n1 has 4.0GiB available, others up to 16.0GiB", "fewer ranks", "n1", 0},
		"own problem":    {2, defect{func(r *Report) { r.Hosts[1].Facts.Disk = host.Disk{Dir: "/out", Err: "read-only file system"} }}, "disk", host.Problem, "n1: /out: read-only file system", "another directory", "n1", 0},
		"processors":     {3, defect{func(r *Report) { r.Hosts[0].Facts.Versions.Kernels = "avx2" }}, "processors", host.Note, "n0 computes with loops of  avx2", "one kind", "n0", 0},
	} {
		r := healthy(c.n)
		for _, s := range c.spoil {
			s(r)
		}
		r.judge()
		hit := 0
		for _, f := range r.Findings {
			if f.Check == c.check && strings.Contains(f.Text, c.text) {
				hit++
				if f.State != c.state || !strings.Contains(f.Try, c.try) || f.Try == "" || strings.Join(f.Hosts, " ") != c.hosts {
					t.Errorf("%s: %+v, want %s, %q, %s", name, f, c.state, c.try, c.hosts)
				}
			}
		}
		if hit != 1 || len(r.Findings) != 1+c.others {
			t.Errorf("%s: %+v, want %q", name, r.Findings, c.text)
		}
		var b strings.Builder
		if err := r.Print(&b); err != nil || !strings.Contains(b.String(), c.text) {
			t.Errorf("%s: %v\n%s", name, err, b.String())
		}
	}
	r := healthy(4)
	if r.judge(); len(r.Findings) > 0 {
		t.Errorf("%+v", r.Findings)
	}
	r = healthy(100)
	r.judge()
	var b strings.Builder
	if err := r.Print(&b); err != nil || !strings.Contains(b.String(), "the links of 100 hosts are in --json") {
		t.Errorf("%v", err)
	}
}

// FuzzJudge: no message of another host makes the report fail.
func FuzzJudge(f *testing.F) {
	a, _ := json.Marshal(about{Name: "n1", Address: "10.0.0.2"})
	l, _ := json.Marshal(healthy(2).Links[1])
	f.Add(a, l)
	f.Add([]byte(`{"facts":{"interfaces":[{"addresses":[""]}]}}`), []byte(`[{"state":"x","names":["x"],"offset_ns":-9223372036854775808},{}]`))
	f.Fuzz(func(t *testing.T, hello, links []byte) {
		own, _ := json.Marshal(about{Name: "n0", Address: "10.0.0.1"})
		hosts, err := decode[about]("hosts", [][]byte{own, hello})
		if err != nil {
			return
		}
		mine, _ := json.Marshal(healthy(2).Links[0])
		all, err := decode[[]Link]("links", [][]byte{mine, links})
		if err != nil || len(all[1]) != 2 {
			return
		}
		r := newReport(hosts, all)
		r.judge()
		if err := r.Print(new(strings.Builder)); err != nil {
			t.Error(err)
		}
	})
}
