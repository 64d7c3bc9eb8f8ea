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

// call sends a request and waits for its answer.
func (s *Store) call(ctx context.Context, o op, key string, value []byte) ([]byte, error) {
	if len(key) > maxKey || len(value) > maxValue {
		return nil, fmt.Errorf("rendezvous: %q: a key of %d and a value of %d bytes, at most %d and %d", key[:min(len(key), 40)], len(key), len(value), maxKey, maxValue)
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
	// Sending may block where rank 0 is stopped, and must not hold up the end of ctx.
	s.wg.Go(func() {
		s.send(message{id: id, op: o, timeout: timeout, key: key, value: value}) // an error is in s.err
	})
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.calls, id)
		s.mu.Unlock()
	}()

	// The store keeps the time and knows who is missing; the limit here is for a store that runs
	// and does not answer.
	limit := time.NewTimer(timeout + 2*time.Second)
	defer limit.Stop()
	if o == opAwait {
		limit.Stop()
	}
	cancelled := ctx.Done()
	for {
		select {
		case m := <-answer:
			switch m.op {
			case opOK:
				return m.value, nil
			case opTimeout:
				return nil, decodeFailure(ErrTimeout, m.value)
			case opLost:
				return nil, decodeFailure(ErrLost, m.value)
			}
			return nil, fmt.Errorf("rendezvous: %s", m.value)
		case <-s.done:
			select {
			case m := <-answer: // it was answered first
				if m.op == opOK {
					return m.value, nil
				}
			default:
			}
			if err := s.Err(); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("rendezvous: %q: %w", key, os.ErrClosed)
		case <-cancelled:
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				cancelled = nil // the store's answer, which names the missing, is on its way
				limit.Reset(250 * time.Millisecond)
				continue
			}
			return nil, fmt.Errorf("rendezvous: %q: %w", key, ctx.Err())
		case <-limit.C:
			return nil, &Failure{Kind: ErrTimeout, Rank: 0, Text: fmt.Sprintf("rendezvous: %q: the store at %s (rank 0) does not answer within %v", key, s.addr, timeout.Round(time.Millisecond))}
		}
	}
}

// Set stores value under key and wakes those who Get it.
func (s *Store) Set(ctx context.Context, key string, value []byte) error {
	_, err := s.call(ctx, opSet, key, value)
	return err
}

// Get returns key's value and waits until there is one.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	return s.call(ctx, opGet, key, nil)
}

// Add adds delta to the number under key, 0 at first, and returns the sum. Get reads it as
// decimal digits.
func (s *Store) Add(ctx context.Context, key string, delta int64) (int64, error) {
	b, err := s.call(ctx, opAdd, key, binary.BigEndian.AppendUint64(nil, uint64(delta)))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(b), 10, 64)
}

// AllGather gives every rank's value to every rank, in the order of ranks, when all have
// called it with this key. A key may be used again once its gathering has ended. The sum of
// the values may be 16 MiB.
func (s *Store) AllGather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	return s.gather(s.call(ctx, opGather, key, mine))
}

// Await is AllGather, but waits for a rank that has joined as long as that lives. It ends what ranks
// do alone, however long that takes.
func (s *Store) Await(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	return s.gather(s.call(ctx, opAwait, key, mine))
}

// gather reads the answer to opGather.
func (s *Store) gather(b []byte, err error) ([][]byte, error) {
	if err != nil {
		return nil, err
	}
	vs, err := decodeList(b)
	if err == nil && len(vs) != s.Size() {
		err = fmt.Errorf("rendezvous: %d values were gathered in a world of %d", len(vs), s.Size())
	}
	return vs, err
}

// Barrier returns when every rank has called it with this key.
func (s *Store) Barrier(ctx context.Context, key string) error {
	_, err := s.AllGather(ctx, key, nil)
	return err
}
