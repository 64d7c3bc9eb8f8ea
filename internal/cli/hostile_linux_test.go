package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"trireme/internal/secureconn"
	"trireme/rendezvous"
)

var (
	hostile     = flag.Int("hostile", 3000, "TestHostileConnections: number of connections; 100000 is the long form")
	hostileRate = flag.Int("hostile.rate", 1000, "TestHostileConnections: connections per second")
)

// hostileWindow is the time with, and then the time without, hostile connections.
const hostileWindow = time.Second

// stranger makes hostile connections to the ports of a job.
type stranger struct {
	ports    []int
	key      []byte // of the job
	request  []byte // a true handshake that was recorded
	accepted atomic.Int64
	made     [len(hostileKinds)]atomic.Int64
}

var hostileKinds = [...]string{"garbage", "half-open", "half a handshake", "replayed handshake", "another secret", "oversize"}

// record keeps the bytes of a handshake with a listener of the same job.
func (s *stranger) record(t *testing.T) {
	cfg := secureconn.Config{Key: s.key}
	l, err := secureconn.Listen(t.Context(), "127.0.0.1:0", cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := net.Listen("tcp", "127.0.0.1:0") // forwards to l
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		in, err := raw.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer in.Close()
		out, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer out.Close()
		wg.Go(func() { io.Copy(in, out) })
		var tape bytes.Buffer
		io.Copy(io.MultiWriter(out, &tape), in)
		s.request = tape.Bytes()
	})
	c, err := secureconn.Dial(t.Context(), raw.Addr().String(), cfg, []byte{0, 0, 0, 1, 0, 0, 0, 2})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	raw.Close()
	wg.Wait()
	if len(s.request) < 200 {
		t.Fatalf("a handshake of %d bytes was recorded", len(s.request))
	}
}

// connect makes the i-th connection. It counts as accepted if the listener answers more than its greeting.
func (s *stranger) connect(i int, hold func(net.Conn)) {
	kind := i % len(hostileKinds)
	addr := fmt.Sprintf("127.0.0.1:%d", s.ports[i/len(hostileKinds)%len(s.ports)])
	if hostileKinds[kind] == "another secret" {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		key := bytes.Clone(s.key)
		key[i%len(key)]++
		if c, err := secureconn.Dial(ctx, addr, secureconn.Config{Key: key}, nil); err == nil {
			s.accepted.Add(1)
			c.Close()
		}
		s.made[kind].Add(1)
		return
	}
	d := net.Dialer{Timeout: 2 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%50))}}
	c, err := d.Dial("tcp", addr)
	if err != nil {
		return
	}
	s.made[kind].Add(1)
	c.(*net.TCPConn).SetLinger(0)
	var b []byte
	switch hostileKinds[kind] {
	case "garbage":
		b = make([]byte, 1+rand.IntN(4096))
		for j := range b {
			b[j] = byte(rand.Uint32())
		}
	case "half-open":
		hold(c)
		return
	case "half a handshake":
		c.Write(s.request[:1+rand.IntN(len(s.request)-1)])
		hold(c)
		return
	case "replayed handshake":
		b = s.request
	case "oversize":
		b = bytes.Repeat(s.request, 64)
	}
	c.Write(b)
	c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if answer, _ := io.ReadAll(c); len(answer) > 40 {
		s.accepted.Add(1)
	}
	c.Close()
}

// flood makes n connections at a rate, starting with the i-th, and holds up to 1000 silent ones.
func (s *stranger) flood(i, n, rate int, held *[]net.Conn) {
	var mu sync.Mutex
	hold := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		if *held = append(*held, c); len(*held) > 1000 {
			(*held)[0].Close()
			*held = (*held)[1:]
		}
	}
	var wg sync.WaitGroup
	began := time.Now()
	busy := make(chan struct{}, 64)
	for k := range n {
		if ahead := time.Duration(k) * time.Second / time.Duration(rate); time.Since(began) < ahead {
			time.Sleep(ahead - time.Since(began))
		}
		busy <- struct{}{}
		wg.Go(func() {
			s.connect(i+k, hold)
			<-busy
		})
	}
	wg.Wait()
}

// stepRecord is a line of metrics.jsonl.
type stepRecord struct {
	Step    int       `json:"step"`
	Loss    float64   `json:"loss"`
	Seconds float64   `json:"step_seconds"`
	Time    time.Time `json:"time"`
}

func stepRecords(t *testing.T, path string) (all []stepRecord) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var r stepRecord
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// listeningPorts returns the ports at which processes listen.
func listeningPorts(t *testing.T, r *ranks) (ports []int) {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{}
	for _, c := range r.cmds {
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", c.Process.Pid))
		for _, l := range links {
			if to, err := os.Readlink(l); err == nil {
				own[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
			}
		}
	}
	for _, s := range listening(string(table)) {
		if own[s.inode] {
			ports = append(ports, s.port)
		}
	}
	return ports
}

// Strangers connect to every port of a run of two ranks over TCP: none is accepted, and the run has the losses
// and, on an idle machine, the speed of an undisturbed one.
func TestHostileConnections(t *testing.T) {
	dir := t.TempDir()
	secureRun(t, dir)
	key, err := rendezvous.Env{Secret: []byte(jobSecret), RunID: "none"}.Key("store")
	if err != nil {
		t.Fatal(err)
	}
	s := &stranger{key: key}
	s.record(t)
	args := []string{"train", "--config", "run.yaml", "--set", "training.global_batch_size=24", "--set", "training.lr_scheduler=constant", "--output_dir"}
	r := &ranks{}
	defer func() {
		for _, c := range r.cmds {
			c.Process.Kill()
		}
	}()
	for rank := range 2 {
		env := []string{"TRIREME_JOB_SECRET=" + jobSecret, fmt.Sprint("RANK=", rank), "WORLD_SIZE=2", fmt.Sprint("LOCAL_RANK=", rank), "LOCAL_WORLD_SIZE=2", "MASTER_PORT=" + port(t, dir)}
		r.start(t, dir, env, append(args, "out", "--set", "parallel.backend=tcp"))
	}
	r.steps(t, dir, 20)
	if s.ports = listeningPorts(t, r); len(s.ports) != 3 { // the store, and each rank
		t.Fatalf("the run listens at %v", s.ports)
	}
	type window struct {
		from, to time.Time
		flooded  bool
	}
	var windows []window
	var held []net.Conn
	flooded := time.Duration(0)
	perWindow := int(hostileWindow.Seconds() * float64(*hostileRate))
	for i := 0; i < *hostile; i += perWindow {
		from := time.Now()
		s.flood(i, min(perWindow, *hostile-i), *hostileRate, &held)
		mid := time.Now()
		flooded += mid.Sub(from)
		for _, c := range held {
			c.Close()
		}
		held = nil
		time.Sleep(hostileWindow)
		windows = append(windows, window{from, mid, true}, window{mid.Add(50 * time.Millisecond), time.Now(), false})
	}
	for i, c := range r.cmds {
		c.Process.Signal(syscall.SIGTERM)
		if err := <-r.ends[i]; exitCode(err) != "75" {
			t.Errorf("rank %d: code %s: %s", i, exitCode(err), r.errs[i])
		}
	}

	records := stepRecords(t, filepath.Join(dir, "out", "metrics.jsonl"))
	with, without := []float64{}, []float64{}
	var ratios []float64 // of each pair of windows
	for k := 0; k < len(windows); k += 2 {
		var pair [2][]float64
		for j, w := range windows[k : k+2] {
			for _, r := range records {
				if r.Time.Before(w.to) && r.Time.Add(-time.Duration(r.Seconds*float64(time.Second))).After(w.from) {
					pair[j] = append(pair[j], r.Seconds)
				}
			}
		}
		if len(pair[0]) > 0 && len(pair[1]) > 0 {
			with, without = append(with, pair[0]...), append(without, pair[1]...)
			ratios = append(ratios, median(pair[0])/median(pair[1]))
		}
	}
	if len(ratios) == 0 {
		t.Fatal("no steps to compare")
	}
	made := 0
	for kind, name := range hostileKinds {
		n := int(s.made[kind].Load())
		if made += n; n < *hostile/len(hostileKinds)/2 {
			t.Errorf("%s: only %d connections", name, n)
		}
	}
	if s.accepted.Load() != 0 {
		t.Errorf("%d of %d hostile connections were accepted", s.accepted.Load(), made)
	}
	ratio := median(ratios)
	t.Logf("%d hostile connections at %.0f per second, none accepted; %d steps with them of %.2f ms (median), %d without of %.2f ms; median ratio of %d pairs of windows %.3f",
		made, float64(made)/flooded.Seconds(), len(with), 1e3*median(with), len(without), 1e3*median(without), len(ratios), ratio)
	if *hostile >= 100_000 && ratio > 1.05 {
		t.Errorf("a step takes %.3f times as long with hostile connections, the limit is 1.05", ratio)
	}

	n := min(len(records), 50)
	alone := &ranks{}
	alone.start(t, dir, nil, append(args, "alone", "--set", fmt.Sprintf("training.max_steps=%d", n)))
	if err := <-alone.ends[0]; err != nil {
		t.Fatal(alone.errs[0])
	}
	for i, want := range stepRecords(t, filepath.Join(dir, "alone", "metrics.jsonl"))[:n] {
		if got := records[i]; got.Step != want.Step || got.Loss != want.Loss {
			t.Fatalf("step %d has loss %v, and %v undisturbed", got.Step, got.Loss, want.Loss)
		}
	}
}
