package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"trireme/collective"
	"trireme/internal/host"
	"trireme/internal/netif"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// meeting is an exchange of the hosts of one process.
type meeting struct {
	n    int
	mu   sync.Mutex
	keys map[string]*gathering
}

type gathering struct {
	values [][]byte
	count  int
	done   chan struct{}
}

func newMeeting(n int) *meeting { return &meeting{n: n, keys: map[string]*gathering{}} }

type seat struct {
	*meeting
	index int
}

func (s seat) AllGather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	s.mu.Lock()
	g := s.keys[key]
	if g == nil {
		g = &gathering{values: make([][]byte, s.n), done: make(chan struct{})}
		s.keys[key] = g
	}
	if g.values[s.index] != nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("key %s is used twice", key)
	}
	g.values[s.index] = mine
	if g.count++; g.count == s.n {
		close(g.done)
	}
	s.mu.Unlock()
	select {
	case <-g.done:
		return g.values, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var _ collective.Bootstrap = seat{}

// runAll runs n hosts in this process, which spoil changes, and returns their reports.
func runAll(t *testing.T, n int, spoil func(i int, c *Config)) []*Report {
	t.Helper()
	all, err := netif.List()
	if err != nil {
		t.Fatal(err)
	}
	m := newMeeting(n)
	reports := make([]*Report, n)
	var wg sync.WaitGroup
	for i := range n {
		c := Config{
			Exchange: seat{m, i}, Index: i, N: n, Name: fmt.Sprintf("n%d", i), Address: "127.0.0.1", Key: make([]byte, 32),
			Facts: host.Facts{Interfaces: all, Versions: host.Versions{Program: "v1"}, Memory: host.Memory{Available: 1 << 40}}, Limit: 20 * time.Second, Speed: 50 * time.Millisecond,
		}
		if spoil != nil {
			spoil(i, &c)
		}
		wg.Go(func() {
			r, err := Run(t.Context(), c)
			if err != nil {
				t.Errorf("host %d: %v", i, err)
			}
			reports[i] = r
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return reports
}

// wants checks that a report has findings with these texts, and no other problem.
func wants(t *testing.T, r *Report, state host.State, check, text, try string, hosts ...string) {
	t.Helper()
	for _, f := range r.Findings {
		if f.Check == check && strings.Contains(f.Text, text) {
			if f.State != state || !strings.Contains(f.Try, try) || !slices.Equal(f.Hosts, hosts) {
				t.Errorf("%+v, want %s, %s, %v", f, state, try, hosts)
			}
			return
		}
	}
	t.Errorf("no finding %s: %s in %+v", check, text, r.Findings)
}

func problems(r *Report) (out []string) {
	for _, f := range r.Findings {
		if f.State == host.Problem {
			out = append(out, f.Check)
		}
	}
	return out
}

// TestHealthy: hosts without problems agree on one report.
func TestHealthy(t *testing.T) {
	for _, n := range []int{2, 3, 5} {
		all := runAll(t, n, nil)
		r := all[n-1]
		if len(problems(r)) != 0 || !r.sumsRight() || len(r.Sums) != n {
			t.Fatalf("%d hosts: %+v", n, r)
		}
		for i := range n {
			for j, l := range r.Links[i] {
				if i != j && (l.State != Connected || l.Latency <= 0 || l.Speed <= 0 || l.Largest != 64<<10 || l.Offset.Abs() > time.Second) {
					t.Errorf("%d hosts: %d to %d: %+v", n, i, j, l)
				}
			}
			if s := strings.Join(problems(all[i]), " "); all[i].Summary()[:20] != r.Summary()[:20] || s != "" {
				t.Errorf("host %d of %d: %s", i, n, s)
			}
		}
		var b strings.Builder
		if err := r.Print(&b); err != nil || !strings.Contains(b.String(), fmt.Sprintf("%d hosts, %d of %d directions connect", n, n*(n-1), n*(n-1))) {
			t.Errorf("%v: %s", err, b.String())
		}
	}
}

// TestDifferences: other programs, configurations, clocks and secrets are named with their hosts.
func TestDifferences(t *testing.T) {
	r := runAll(t, 3, func(i int, c *Config) {
		c.Digest = "aaaaaaaaaaaaaaaa"
		switch i {
		case 1:
			c.Facts.Versions.Program = "v2"
			c.Now = func() time.Time { return time.Now().Add(-90 * time.Second) }
		case 2:
			c.Digest = "bbbbbbbbbbbbbbbb"
		}
	})[0]
	wants(t, r, host.Problem, "version", "n1 runs trireme v2, n0 and n2 v1", "the same program", "n1")
	wants(t, r, host.Problem, "configuration", "n2 has another configuration (hash bbbbbbbbbbbb) than n0 and n1 (aaaaaaaaaaaa)", "copy", "n2")
	wants(t, r, host.Note, "clock", "the clock of n1 is 1m30s behind that of n0", "chronyc makestep, on n1", "n1")
	if got := problems(r); len(got) != 2 {
		t.Errorf("%v", got)
	}

	r = runAll(t, 3, func(i int, c *Config) {
		if i == 1 {
			c.Key = []byte(strings.Repeat("x", 32))
		}
	})[2]
	wants(t, r, host.Problem, "secret", "n1 (127.0.0.1) has another secret than n0 and n2", "mode 0600", "n1")
	if len(r.Sums) > 0 || len(problems(r)) != 1 {
		t.Errorf("%+v", r.Findings)
	}
	r = runAll(t, 2, func(i int, c *Config) { c.Key = []byte(strings.Repeat("xy"[i:i+1], 32)) })[0]
	wants(t, r, host.Problem, "secret", "n0 (127.0.0.1) and n1 (127.0.0.1) have different secrets", "mode 0600", "n0", "n1")

	r = runAll(t, 2, func(i int, c *Config) {
		if i == 1 {
			c.Address = "192.0.2.99"
		}
	})[0]
	wants(t, r, host.Problem, "network", "it cannot listen", "", "n0", "n1")
}

// TestLostHost: a host that ends during the check is an error on the others.
func TestLostHost(t *testing.T) {
	m := newMeeting(2)
	_, err := Run(t.Context(), Config{Exchange: seat{m, 0}, N: 2, Name: "n0", Address: "127.0.0.1", Key: make([]byte, 32), Limit: 50 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "step hosts") {
		t.Error(err)
	}
}

func TestRounds(t *testing.T) {
	for n := 2; n < 20; n++ {
		met := map[way]int{}
		for round := range rounds(n) {
			for i := range n {
				j := partner(i, round, n)
				if j < 0 {
					continue
				}
				if j == i || j >= n || partner(j, round, n) != i {
					t.Fatalf("%d hosts, round %d: %d meets %d, who meets %d", n, round, i, j, partner(j, round, n))
				}
				met[way{i, j}]++
			}
		}
		for i := range n {
			for j := range n {
				if i != j && met[way{i, j}] != 1 {
					t.Errorf("%d hosts: %d meets %d %d times", n, i, j, met[way{i, j}])
				}
			}
		}
	}
}
