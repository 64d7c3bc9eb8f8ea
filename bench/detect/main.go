package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"trireme/internal/netns"
	"trireme/rendezvous"
)

//go:embed gloo.py
var glooScript string

type harness struct {
	python        string
	ranks, repeat int
	load          int
	calm          time.Duration
	heartbeat     time.Duration
}

func main() {
	if os.Getenv(workerVar) != "" {
		if err := work(); err != nil {
			fmt.Println("error:", err)
		}
		return
	}
	h := harness{}
	flag.StringVar(&h.python, "python", "python3", "a python that imports torch, for gloo")
	flag.IntVar(&h.ranks, "ranks", 4, "ranks of the job; cut has half of them on each host")
	flag.IntVar(&h.repeat, "repeat", 10, "jobs of each case")
	flag.IntVar(&h.load, "load", 0, "busy processes per processor beside the job")
	flag.DurationVar(&h.calm, "for", 3*time.Minute, "time of calm")
	flag.DurationVar(&h.heartbeat, "heartbeat", time.Second, "parallel.heartbeat_seconds")
	flag.Parse()
	if err := h.run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (h harness) run(cases []string) error {
	if len(cases) == 0 {
		return errors.New("detect: no case given. try: start, killed, stopped, cut, calm, calm-hosts, gloo-killed, gloo-stopped")
	}
	for range h.load * runtime.NumCPU() {
		c := exec.Command("/bin/sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			return err
		}
		defer c.Wait()
		defer c.Process.Kill()
	}
	for _, name := range cases {
		n := h.repeat
		if strings.HasPrefix(name, "calm") {
			n = 1
		}
		var took []time.Duration
		for range n {
			d, err := h.once(name)
			if err != nil {
				return fmt.Errorf("detect: %s: %w", name, err)
			}
			took = append(took, d)
		}
		slices.Sort(took)
		ms := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds()*1000, 'f', 1, 64) }
		var all []string
		for _, d := range took {
			all = append(all, ms(d))
		}
		fmt.Printf("%s: %d ranks, load %d: median %s ms, longest %s ms (%s)\n", name, h.ranks, h.load, ms(took[len(took)/2]), ms(took[len(took)-1]), strings.Join(all, " "))
	}
	return nil
}

// rank is a process of a job.
type rank struct {
	cmd   *exec.Cmd
	lines chan string
}

func (h harness) once(name string) (time.Duration, error) {
	dir, err := os.MkdirTemp("", "detect")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	var hosts *netns.Net
	if name == "cut" || name == "calm-hosts" {
		if hosts, err = netns.Make(2); err != nil {
			return 0, err
		}
		defer hosts.Close()
	}
	began := time.Now()
	ranks, err := h.start(name, dir, hosts)
	defer func() {
		for _, r := range ranks {
			r.cmd.Process.Kill()
			r.cmd.Wait()
		}
	}()
	if err != nil {
		return 0, err
	}
	for i, r := range ranks {
		if l := r.next(2 * time.Minute); l != "runs" {
			return 0, fmt.Errorf("rank %d does not run: %s", i, l)
		}
	}
	if name == "start" {
		return time.Since(began), nil
	}
	victim := ranks[len(ranks)-1]
	time.Sleep(time.Second)
	hit := time.Now()
	limit := 45 * time.Second
	switch name {
	case "killed", "gloo-killed":
		victim.cmd.Process.Signal(syscall.SIGKILL)
	case "stopped", "gloo-stopped":
		victim.cmd.Process.Signal(syscall.SIGSTOP)
	case "cut":
		if err := hosts.Hosts[1].Cut(); err != nil {
			return 0, err
		}
	case "calm", "calm-hosts":
		limit = h.calm
	default:
		return 0, errors.New("unknown case")
	}
	var last time.Duration
	calm := strings.HasPrefix(name, "calm")
	for i, r := range ranks {
		if r == victim && name != "cut" && !calm {
			continue
		}
		l := r.next(time.Until(hit.Add(limit)))
		if calm {
			if l != "" {
				return 0, fmt.Errorf("a false alarm at rank %d after %v: %s", i, time.Since(hit), l)
			}
			continue
		}
		at, text, _ := strings.Cut(strings.TrimPrefix(l, "lost "), " ")
		ns, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			if l == "" {
				l = fmt.Sprintf("nothing within %v", limit)
			}
			fmt.Fprintf(os.Stderr, "%s: rank %d: %s\n", name, i, l)
			last = limit
			continue
		}
		fmt.Fprintf(os.Stderr, "%s: rank %d after %.1f ms: %s\n", name, i, float64(ns-hit.UnixNano())/1e6, text)
		last = max(last, time.Duration(ns-hit.UnixNano()))
	}
	if calm {
		return time.Since(hit), nil
	}
	return last, nil
}

func (r *rank) next(d time.Duration) string {
	select {
	case l := <-r.lines:
		return l
	case <-time.After(d):
		return ""
	}
}

func (h harness) start(name, dir string, hosts *netns.Net) ([]*rank, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{exe}
	if strings.HasPrefix(name, "gloo") {
		script := filepath.Join(dir, "gloo.py")
		if err := os.WriteFile(script, []byte(glooScript), 0o644); err != nil {
			return nil, err
		}
		args = []string{h.python, script}
	}
	port := 29500
	if hosts == nil {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		port = l.Addr().(*net.TCPAddr).Port
		l.Close()
	}
	var ranks []*rank
	for i := range h.ranks {
		e := rendezvous.Env{Rank: i, WorldSize: h.ranks, LocalRank: i, LocalWorldSize: h.ranks, GroupWorldSize: 1, Ranks: 1, MasterAddr: "127.0.0.1", MasterPort: port, RunID: "detect"}
		c := exec.Command(args[0], args[1:]...)
		if hosts != nil {
			half := h.ranks / 2
			e.LocalRank, e.LocalWorldSize, e.GroupRank, e.GroupWorldSize, e.MasterAddr = i%half, half, i/half, 2, hosts.Hosts[0].Addr
			c = hosts.Hosts[i/half].Command(context.Background(), args[0], args[1:]...)
		}
		c.Env = append(append(os.Environ(), e.Variables()...), workerVar+"="+h.heartbeat.String(), rendezvous.SecretVar+"=a secret of this measurement", "TMPDIR="+dir)
		c.Stderr = os.Stderr
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			return ranks, err
		}
		r := &rank{c, make(chan string, 16)}
		go read(out, r.lines)
		ranks = append(ranks, r)
	}
	return ranks, nil
}

func read(out io.Reader, lines chan<- string) {
	for s := bufio.NewScanner(out); s.Scan(); {
		switch word, _, _ := strings.Cut(s.Text(), " "); word {
		case "runs", "lost", "error:": // gloo prints more
			lines <- s.Text()
		}
	}
}
