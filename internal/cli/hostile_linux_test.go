package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
	Ports    []int
	Key      []byte // of the job
	Request  []byte // a true handshake that was recorded
	Rate     int    // connections per second
	accepted atomic.Int64
	made     [len(hostileKinds)]atomic.Int64
}

// strangerEnv has a stranger as JSON, for TestStrangerProcess.
const strangerEnv = "TRIREME_TEST_STRANGER"

// flooding is a command to a stranger's process: make connections First to First+N-1.
type flooding struct{ First, N int }

// flooded is its answer: the connections of each kind that were made, and how many the job accepted.
type flooded struct {
	Made     [len(hostileKinds)]int64
	Accepted int64
}

// start runs the stranger in a process that gets the processor only when nothing else wants it: a true stranger
// has its own machine, so its time does not count. It returns a function that floods, and one that ends the process.
func (s *stranger) start(t *testing.T) (flood func(flooding) flooded, stop func()) {
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(os.Args[0], "-test.run", "^TestStrangerProcess$")
	c.Env = append(os.Environ(), strangerEnv+"="+string(b))
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with this goroutine
		attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
		started <- errors.Join(unix.SchedSetAttr(0, &attr, 0), c.Start())
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	answers := json.NewDecoder(out)
	return func(f flooding) (made flooded) {
			if err := errors.Join(json.NewEncoder(in).Encode(f), answers.Decode(&made)); err != nil {
				t.Fatal(err)
			}
			return made
		}, func() {
			in.Close()
			if err := c.Wait(); err != nil {
				t.Error(err)
			}
		}
}

// TestStrangerProcess is the process of stranger.start.
func TestStrangerProcess(t *testing.T) {
	config := os.Getenv(strangerEnv)
	if config == "" {
		t.Skip("only TestHostileConnections runs this")
	}
	s := &stranger{}
	if err := json.Unmarshal([]byte(config), s); err != nil {
		t.Fatal(err)
	}
	commands, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var f flooding
		if err := commands.Decode(&f); err != nil {
			os.Exit(0)
		}
		var a flooded
		s.flood(f)
		for kind := range s.made {
			a.Made[kind] = s.made[kind].Swap(0)
		}
		a.Accepted = s.accepted.Swap(0)
		if err := answers.Encode(a); err != nil {
			t.Fatal(err)
		}
	}
}

var hostileKinds = [...]string{"garbage", "half-open", "half a handshake", "replayed handshake", "another secret", "oversize"}

// record keeps the bytes of a handshake with a listener of the same job.
func (s *stranger) record(t *testing.T) {
	cfg := secureconn.Config{Key: s.Key}
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
		s.Request = tape.Bytes()
	})
	c, err := secureconn.Dial(t.Context(), raw.Addr().String(), cfg, []byte{0, 0, 0, 1, 0, 0, 0, 2})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	raw.Close()
	wg.Wait()
	if len(s.Request) < 200 {
		t.Fatalf("a handshake of %d bytes was recorded", len(s.Request))
	}
}

// connect makes the i-th connection. It counts as accepted if the listener answers more than its greeting.
func (s *stranger) connect(i int, hold func(net.Conn)) {
	kind := i % len(hostileKinds)
	addr := fmt.Sprintf("127.0.0.1:%d", s.Ports[i/len(hostileKinds)%len(s.Ports)])
	if hostileKinds[kind] == "another secret" {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		key := bytes.Clone(s.Key)
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
		c.Write(s.Request[:1+rand.IntN(len(s.Request)-1)])
		hold(c)
		return
	case "replayed handshake":
		b = s.Request
	case "oversize":
		b = bytes.Repeat(s.Request, 64)
	}
	c.Write(b)
	c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if answer, _ := io.ReadAll(c); len(answer) > 40 {
		s.accepted.Add(1)
	}
	c.Close()
}

// flood makes connections at a rate, holds up to 1000 silent ones, and closes them.
func (s *stranger) flood(f flooding) {
	var mu sync.Mutex
	var held []net.Conn
	hold := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		if held = append(held, c); len(held) > 1000 {
			held[0].Close()
			held = held[1:]
		}
	}
	var wg sync.WaitGroup
	began := time.Now()
	busy := make(chan struct{}, 64)
	for k := range f.N {
		if ahead := time.Duration(k) * time.Second / time.Duration(s.Rate); time.Since(began) < ahead {
			time.Sleep(ahead - time.Since(began))
		}
		busy <- struct{}{}
		wg.Go(func() {
			s.connect(f.First+k, hold)
			<-busy
		})
	}
	wg.Wait()
	for _, c := range held {
		c.Close()
	}
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
	s := &stranger{Key: key, Rate: *hostileRate}
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
	if s.Ports = listeningPorts(t, r); len(s.Ports) != 3 { // the store, and each rank
		t.Fatalf("the run listens at %v", s.Ports)
	}
	flood, stop := s.start(t)
	defer stop()
	type window struct {
		from, to time.Time
		flooded  bool
	}
	var windows []window
	var total flooded
	spent := time.Duration(0)
	perWindow := int(hostileWindow.Seconds() * float64(*hostileRate))
	for i := 0; i < *hostile; i += perWindow {
		from := time.Now()
		made := flood(flooding{i, min(perWindow, *hostile-i)})
		mid := time.Now()
		spent += mid.Sub(from)
		total.Accepted += made.Accepted
		for kind, n := range made.Made {
			total.Made[kind] += n
		}
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
		n := int(total.Made[kind])
		if made += n; n < *hostile/len(hostileKinds)/2 {
			t.Errorf("%s: only %d connections", name, n)
		}
	}
	if total.Accepted != 0 {
		t.Errorf("%d of %d hostile connections were accepted", total.Accepted, made)
	}
	ratio := median(ratios)
	t.Logf("%d hostile connections at %.0f per second, none accepted; %d steps with them of %.2f ms (median), %d without of %.2f ms; median ratio of %d pairs of windows %.3f",
		made, float64(made)/spent.Seconds(), len(with), 1e3*median(with), len(without), 1e3*median(without), len(ratios), ratio)
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
