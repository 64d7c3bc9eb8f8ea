package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"trireme/internal/durable"
	"trireme/internal/tracefile"
	"trireme/trace"
)

// Dir is the folder of traces in a run's directory.
const Dir = "trace"

// chunk is the size of the messages to rank 0: the connection carries heartbeats too.
const chunk = 1 << 20

// getTimeout is the time for which rank 0 waits for a part of another rank.
const getTimeout = 20 * time.Second

// deliver sends a part to rank 0, or at rank 0 writes the files of all parts.
func (c *Collector) deliver(ctx context.Context, p part) {
	mine := tracefile.Rank{Rank: c.cfg.Rank, Host: c.cfg.Host, PID: os.Getpid(), Dropped: p.dropped, Groups: c.cfg.Groups}
	t := &tracefile.Trace{Wall: time.Now().UnixNano() - trace.Now()}
	mine.Spans = p.spans
	if c.cfg.Rank > 0 {
		if err := c.send(ctx, t, mine, p.number); err != nil && ctx.Err() == nil {
			c.note("rank %d cannot send its spans: %v", c.cfg.Rank, err)
		}
		return
	}
	t.Add(mine)
	missing := 0
	for r := 1; r < c.cfg.Size; r++ {
		got, err := c.receive(ctx, r, p.number)
		if err != nil {
			if missing++; missing == 1 {
				c.note("no spans of rank %d: %v", r, err)
			}
			continue
		}
		t.Add(*got)
	}
	if missing > 1 {
		c.note("no spans of %d ranks", missing)
	}
	if err := c.write(t, p.window); err != nil {
		c.note("%v", err)
	}
}

func partKey(number, rank, chunk int) string {
	return fmt.Sprintf("trace/%d/%d/%d", number, rank, chunk)
}

// send sends this rank's part: its size, then chunks.
func (c *Collector) send(ctx context.Context, t *tracefile.Trace, mine tracefile.Rank, number int) error {
	offset, uncertainty, err := c.cfg.Store.Clock(ctx)
	if err != nil {
		return err
	}
	mine.Shift(int64(offset))
	mine.ClockUncertainty = int64(uncertainty)
	t.Add(mine)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := errors.Join(t.WritePerfetto(z), z.Close()); err != nil {
		return err
	}
	n := 0
	for ; b.Len() > 0; n++ {
		if err := c.cfg.Store.Set(ctx, partKey(number, mine.Rank, n+1), bytes.Clone(b.Next(chunk))); err != nil {
			return err
		}
	}
	return c.cfg.Store.Set(ctx, partKey(number, mine.Rank, 0), strconv.AppendInt(nil, int64(n), 10))
}

// receive returns the part of a rank.
func (c *Collector) receive(ctx context.Context, rank, number int) (*tracefile.Rank, error) {
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	size, err := c.cfg.Store.Get(ctx, partKey(number, rank, 0))
	if err != nil {
		return nil, err
	}
	chunks, err := strconv.Atoi(string(size))
	if err != nil {
		return nil, fmt.Errorf("invalid message of rank %d", rank)
	}
	var b bytes.Buffer
	for n := range chunks {
		key := partKey(number, rank, n+1)
		part, err := c.cfg.Store.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		b.Write(part)
		if err := c.cfg.Store.Set(ctx, key, nil); err != nil { // free the store's memory
			return nil, err
		}
	}
	z, err := gzip.NewReader(&b)
	if err != nil {
		return nil, err
	}
	t, err := tracefile.ReadPerfetto(z)
	if err != nil {
		return nil, err
	}
	if len(t.Ranks) != 1 || t.Ranks[0].Rank != rank {
		return nil, fmt.Errorf("invalid message of rank %d", rank)
	}
	return &t.Ranks[0], nil
}

// write writes the files of a window.
func (c *Collector) write(t *tracefile.Trace, w Window) error {
	dir := filepath.Join(c.cfg.Run, Dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	base := filepath.Join(dir, fmt.Sprintf("steps-%d-%d", w.First, w.Last))
	var names, report string
	for _, f := range []struct {
		want  bool
		name  string
		write func(io.Writer) error
	}{{w.Perfetto, base + ".perfetto-trace", t.WritePerfetto}, {w.Chrome, base + ".json", t.WriteChrome}} {
		if !f.want {
			continue
		}
		if err := durable.Replace(f.name, 0o644, func(file *os.File) error { return f.write(file) }); err != nil {
			return err
		}
		if names != "" {
			names += " and "
		} else {
			report = f.name
		}
		names += f.name
	}
	spans, dropped := 0, int64(0)
	for _, r := range t.Ranks {
		spans += len(r.Spans)
		dropped += r.Dropped
	}
	lost := ""
	if dropped > 0 {
		lost = fmt.Sprintf(", %d dropped", dropped)
	}
	ranks := "1 rank"
	if len(t.Ranks) > 1 {
		ranks = fmt.Sprintf("%d ranks", len(t.Ranks))
	}
	c.note("steps %d to %d, %s: %d spans%s in %s. next: trireme trace report %s", w.First, w.Last, ranks, spans, lost, names, report)
	return nil
}
