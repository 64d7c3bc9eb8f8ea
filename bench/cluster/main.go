// Command cluster measures collectives between two hosts, which are network namespaces of this machine, beside
// a plain TCP stream between them and PyTorch's gloo. It needs root, and nothing else should run.
//
//	go build -o trireme ./cmd/trireme
//	go run ./bench/cluster -rounds 5
//
// The bus bandwidth of an operation is the number of bytes that each rank sends per second, which is also the
// number that it receives. The stream sends and receives without pause on one connection, from one buffer of 64 MiB
// to another, because a collective's data is in memory too; its figure is the mean of the two directions. A second
// stream re-sends a buffer of 256 KiB that stays in the cache. Streams run before and after each measurement, and
// ratios are to their means.
package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"trireme/internal/netns"
)

//go:embed gloo_peer.py
var glooPeer string

type harness struct {
	trireme, python, kib string
	rounds, connections  int
	seconds              float64
	self                 string
	hosts                []*netns.Host
	port                 int
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "stream" {
		if err := stream(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	h := &harness{port: 30000}
	flag.StringVar(&h.trireme, "trireme", "./trireme", "trireme `FILE`")
	flag.StringVar(&h.python, "python", "", "Python with PyTorch, to measure gloo; empty: not measured")
	flag.StringVar(&h.kib, "kib", "64,1024,16384,65536,262144", "sizes in KiB")
	flag.IntVar(&h.rounds, "rounds", 5, "rounds; each measures everything once")
	flag.IntVar(&h.connections, "connections", 0, "connections between two ranks in each direction; 0: trireme's default")
	flag.Float64Var(&h.seconds, "seconds", 1, "seconds per operation and size, and per stream")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := h.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// variant is one way to run the collectives.
type variant struct {
	name string
	run  func(ctx context.Context) (map[string]figure, error)
}

// figure is a measured operation, as in bench.CollectiveFigure.
type figure struct {
	Us    float64 `json:"us"`
	Busbw float64 `json:"busbw_GBps"`
}

func (h *harness) run(ctx context.Context) (err error) {
	if h.self, err = os.Executable(); err != nil {
		return err
	}
	if _, err := exec.LookPath(h.trireme); err != nil {
		return fmt.Errorf("%w. try: go build -o trireme ./cmd/trireme", err)
	}
	m, err := netns.Make(2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	h.hosts = m.Hosts
	variants := []variant{
		{"plain", func(ctx context.Context) (map[string]figure, error) { return h.collectives(ctx, "TRIREME_INSECURE=1") }},
		{"sign", func(ctx context.Context) (map[string]figure, error) {
			return h.collectives(ctx, "", "--transport_security", "sign")
		}},
		{"encrypt", func(ctx context.Context) (map[string]figure, error) {
			return h.collectives(ctx, "", "--transport_security", "encrypt")
		}},
	}
	if h.python != "" {
		variants = append(variants, variant{"gloo", h.gloo})
	}
	return h.measure(ctx, variants)
}

// measure runs all variants in each round, with a stream before and after each.
func (h *harness) measure(ctx context.Context, variants []variant) error {
	type key struct{ op, variant string }
	bandwidth, times, ratios, cached := map[key][]float64{}, map[key][]float64{}, map[key][]float64{}, map[key][]float64{}
	var streams, cachedStreams, oneWay []float64
	both := func() (s [2]float64, err error) {
		for i, size := range []int{memoryBytes, streamBytes} {
			if s[i], err = h.streamed(ctx, "both", size); err != nil {
				return s, err
			}
		}
		return s, nil
	}
	for range h.rounds {
		one, err := h.streamed(ctx, "one", memoryBytes)
		if err != nil {
			return err
		}
		oneWay = append(oneWay, one)
		before, err := both()
		if err != nil {
			return err
		}
		for _, v := range variants {
			res, err := v.run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
			after, err := both()
			if err != nil {
				return err
			}
			for op, f := range res {
				k := key{op, v.name}
				bandwidth[k] = append(bandwidth[k], f.Busbw)
				times[k] = append(times[k], f.Us)
				ratios[k] = append(ratios[k], f.Busbw/((before[0]+after[0])/2))
				cached[k] = append(cached[k], f.Busbw/((before[1]+after[1])/2))
			}
			streams, cachedStreams = append(streams, after[0]), append(cachedStreams, after[1])
			before = after
		}
	}
	fmt.Printf("medians of %d rounds, GB/s; stream: %.2f in one direction, %.2f in each of both; in the cache %.2f in each of both\n\n",
		h.rounds, median(oneWay), median(streams), median(cachedStreams))
	fmt.Println("| operation | variant | us | busbw | of the stream | of a stream in the cache | of the stream per round |\n|---|---|---|---|---|---|---|")
	keys := slices.SortedFunc(maps.Keys(bandwidth), func(a, b key) int { return cmp.Or(compareOps(a.op, b.op), cmp.Compare(a.variant, b.variant)) })
	for _, k := range keys {
		var each []string
		for _, r := range ratios[k] {
			each = append(each, fmt.Sprintf("%.2f", r))
		}
		fmt.Printf("| %s | %s | %.1f | %.3f | %.2f | %.2f | %s |\n", k.op, k.variant, median(times[k]), median(bandwidth[k]), median(ratios[k]), median(cached[k]), strings.Join(each, " "))
	}
	return nil
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

// compareOps orders names such as all_reduce_64KiB by operation and size.
func compareOps(a, b string) int {
	size := func(s string) (string, int) {
		for _, f := range strings.Split(s, "_") {
			if n, ok := strings.CutSuffix(f, "KiB"); ok {
				kib, _ := strconv.Atoi(n)
				return strings.ReplaceAll(s, f, ""), kib
			}
		}
		return s, 0
	}
	nameA, kibA := size(a)
	nameB, kibB := size(b)
	return cmp.Or(cmp.Compare(nameA, nameB), cmp.Compare(kibA, kibB))
}

// collectives runs trireme bench collectives on both hosts. env is a further variable, or empty.
func (h *harness) collectives(ctx context.Context, env string, args ...string) (map[string]figure, error) {
	args = append([]string{"bench", "collectives", "--json", "--transport", "tcp", "--kib", h.kib, "--seconds", fmt.Sprint(h.seconds), "--connections", fmt.Sprint(h.connections)}, args...)
	return h.ranks(ctx, h.trireme, args, env, "TRIREME_JOB_SECRET=a secret of this benchmark, 32 bytes")
}

func (h *harness) gloo(ctx context.Context) (map[string]figure, error) {
	return h.ranks(ctx, h.python, []string{"-c", glooPeer, h.kib, fmt.Sprint(h.seconds)}, "GLOO_SOCKET_IFNAME=eth0", "OMP_NUM_THREADS=1")
}

// ranks runs a program as two ranks, one per host, and returns the figures that rank 0 prints.
func (h *harness) ranks(ctx context.Context, program string, args []string, env ...string) (map[string]figure, error) {
	h.port++
	var out [2]bytes.Buffer
	var cmds [2]*exec.Cmd
	for i, host := range h.hosts {
		c := host.Command(ctx, program, args...)
		c.Env = append(c.Environ(), "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=1", "LOCAL_RANK=0", "GROUP_WORLD_SIZE=2", "MASTER_ADDR="+h.hosts[0].Addr,
			fmt.Sprint("RANK=", i), fmt.Sprint("GROUP_RANK=", i), fmt.Sprint("MASTER_PORT=", h.port))
		for _, e := range env {
			if e != "" {
				c.Env = append(c.Env, e)
			}
		}
		c.Stdout, c.Stderr = &out[i], os.Stderr
		if err := c.Start(); err != nil {
			return nil, err
		}
		cmds[i] = c
	}
	if err := errors.Join(cmds[0].Wait(), cmds[1].Wait()); err != nil {
		return nil, err
	}
	var r struct {
		Res map[string]figure `json:"res"`
	}
	lines := bytes.Split(bytes.TrimSpace(out[0].Bytes()), []byte("\n")) // gloo writes others before
	return r.Res, json.Unmarshal(lines[len(lines)-1], &r)
}

// streamed measures a plain stream between buffers of a size on the hosts, in GB/s per direction.
func (h *harness) streamed(ctx context.Context, directions string, size int) (float64, error) {
	h.port++
	addr := fmt.Sprintf("%s:%d", h.hosts[0].Addr, h.port)
	seconds := fmt.Sprint(max(h.seconds, 0.5))
	var out [2]bytes.Buffer
	serve := h.hosts[0].Command(ctx, h.self, "stream", "serve", addr, directions, fmt.Sprint(size), seconds)
	dial := h.hosts[1].Command(ctx, h.self, "stream", "dial", addr, directions, fmt.Sprint(size), seconds)
	serve.Stdout, serve.Stderr, dial.Stdout, dial.Stderr = &out[0], os.Stderr, &out[1], os.Stderr
	if err := errors.Join(serve.Start(), dial.Start()); err != nil {
		return 0, err
	}
	if err := errors.Join(serve.Wait(), dial.Wait()); err != nil {
		return 0, err
	}
	var sum float64
	n := 0
	for i := range out {
		if text := strings.TrimSpace(out[i].String()); text != "" {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return 0, err
			}
			sum += v
			n++
		}
	}
	return sum / float64(n), nil
}

const dialTime = 5 * time.Second
