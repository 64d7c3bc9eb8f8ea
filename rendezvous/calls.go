package rendezvous

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

func (s *Store) call(ctx context.Context, o op, key string, value []byte) ([]byte, error) {
	if len(key) > maxKey || len(value) > maxValue {
		return nil, fmt.Errorf("rendezvous: %q: key of %d and value of %d bytes, the limits are %d and %d", key[:min(len(key), 40)], len(key), len(value), maxKey, maxValue)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("rendezvous: %q: %w", key, err)
	}
	timeout := s.cfg.Timeout
	if d, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(time.Until(d), time.Millisecond))
	}
	answer := make(chan message, 1)
	s.mu.Lock()
	if s.closed || s.over || s.err != nil {
		defer s.mu.Unlock()
		switch {
		case s.err != nil:
			return nil, s.err
		case s.over:
			return nil, fmt.Errorf("rendezvous: %q: rank 0 has left", key)
		}
		return nil, fmt.Errorf("rendezvous: %q: %w", key, os.ErrClosed)
	}
	s.next++
	id := s.next
	s.calls[id] = answer
	// Sending blocks if rank 0 is stopped, and must not delay cancellation of ctx.
	s.wg.Go(func() {
		s.send(message{id: id, op: o, timeout: timeout, key: key, value: value}) // send sets s.err
	})
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.calls, id)
		s.mu.Unlock()
	}()

	// The store enforces the time-out and names the missing ranks. This limit is for a store that runs
	// but does not answer.
	limit := time.NewTimer(timeout + 2*time.Second)
	defer limit.Stop()
	if o == opAwait {
		limit.Stop()
	}
	canceled := ctx.Done()
	for {
		select {
		case m := <-answer:
			switch m.op {
			case opOK:
				return m.value, nil
			case opNone:
				return nil, errNone
			case opTimeout:
				return nil, decodeFailure(ErrTimeout, m.value)
			case opLost:
				return nil, decodeFailure(ErrLost, m.value)
			}
			return nil, fmt.Errorf("rendezvous: %s", m.value)
		case <-s.done:
			select {
			case m := <-answer: // the answer came first
				if m.op == opOK {
					return m.value, nil
				}
			default:
			}
			if err := s.Err(); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("rendezvous: %q: %w", key, os.ErrClosed)
		case <-canceled:
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				canceled = nil // wait for the store's answer, which names the missing ranks
				limit.Reset(250 * time.Millisecond)
				continue
			}
			return nil, fmt.Errorf("rendezvous: %q: %w", key, ctx.Err())
		case <-limit.C:
			return nil, &Failure{Kind: ErrTimeout, Rank: 0, Text: fmt.Sprintf("rendezvous: %q: no answer from the store at %s (rank 0) within %v", key, s.addr, timeout.Round(time.Millisecond))}
		}
	}
}

// Set stores value under key and wakes waiting Gets.
func (s *Store) Set(ctx context.Context, key string, value []byte) error {
	_, err := s.call(ctx, opSet, key, value)
	return err
}

// Get waits until key has a value, and returns it.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	return s.call(ctx, opGet, key, nil)
}

// errNone is the error of an opTryGet without a value.
var errNone = errors.New("rendezvous: no value")

// Add adds delta to the number under key, initially 0, and returns the sum. Get returns it as decimal
// digits.
func (s *Store) Add(ctx context.Context, key string, delta int64) (int64, error) {
	b, err := s.call(ctx, opAdd, key, binary.BigEndian.AppendUint64(nil, uint64(delta)))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(b), 10, 64)
}

// AllGather returns every rank's value, in rank order, when all have called it with this key. A key can
// be reused after that. The values may have 16 MiB in total.
func (s *Store) AllGather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	return s.gather(ctx, opGather, key, mine)
}

// Await is AllGather without a time-out for ranks that have joined: it waits as long as they live. Use it
// after work of unknown duration, such as preparing data.
func (s *Store) Await(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	return s.gather(ctx, opAwait, key, mine)
}

func (s *Store) gather(ctx context.Context, o op, key string, mine []byte) ([][]byte, error) {
	recorded := s.record(key)
	b, err := s.call(ctx, o, key, mine)
	if err != nil {
		return nil, err
	}
	recorded.End()
	vs, err := decodeList(b)
	if err == nil && len(vs) != s.Size() {
		err = fmt.Errorf("rendezvous: %d values gathered from %d ranks", len(vs), s.Size())
	}
	return vs, err
}

// Barrier returns when every rank has called it with this key.
func (s *Store) Barrier(ctx context.Context, key string) error {
	_, err := s.AllGather(ctx, key, nil)
	return err
}
