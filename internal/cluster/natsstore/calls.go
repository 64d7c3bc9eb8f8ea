package natsstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"trireme/internal/cluster/store"
)

// try is the limit of one attempt of a call.
const try = 2 * time.Second

// repeat calls f until it has an answer: nil, or an error that final says is one. It ends with ctx or after the
// limit of calls, with an ErrUnavailable if f was called.
func (c *client) repeat(ctx context.Context, key string, final func(error) bool, f func(ctx context.Context) error) error {
	if c.ctx.Err() != nil {
		return store.Error(key, store.ErrClosed)
	}
	if ctx.Err() != nil {
		return store.Error(key, context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.timeout(), errors.New("time-out"))
	defer cancel()
	stop := context.AfterFunc(c.ctx, cancel)
	defer stop()
	wait := 10 * time.Millisecond
	for {
		attempt, end := c.attempt(ctx)
		err := f(attempt)
		end()
		if err == nil || final(err) {
			return err
		}
		select {
		case <-ctx.Done():
			if c.ctx.Err() != nil {
				return store.Error(key, store.ErrClosed)
			}
			return store.Error(key, fmt.Errorf("%w (%s): %w", store.ErrUnavailable, c.reason(err), context.Cause(ctx)))
		case <-time.After(wait):
			wait = min(2*wait, 200*time.Millisecond)
		}
	}
}

// code reports whether err is an answer of JetStream with one of the codes.
func code(err error, codes ...jetstream.ErrorCode) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	for _, c := range codes {
		if api.ErrorCode == c {
			return true
		}
	}
	return false
}

// conflict reports that the last message of the subject is another one than expected.
func conflict(err error) bool {
	return code(err, jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// publish stores a message and returns its sequence, or store.ErrConflict. A message that is sent again, by this call
// or a later one, is stored once.
//
// The leader of three servers refuses a change while another change of the key is on its way to the others. Its
// result cannot be read yet, and it may still fail. A refusal counts when the change that caused it can be read.
func (c *client) publish(ctx context.Context, key string, m *nats.Msg) (sequence uint64, err error) {
	attempts := 0
	for end := time.Now().Add(c.cfg.timeout()); ; {
		err = c.repeat(ctx, key, conflict, func(ctx context.Context) error {
			attempts++
			ack, err := c.js.PublishMsg(ctx, m)
			if err == nil {
				sequence = ack.Sequence
			}
			return err
		})
		if !conflict(err) {
			return sequence, err
		}
		if attempts > 1 {
			if sequence, err := c.stored(ctx, key, m); !errors.Is(err, store.ErrConflict) {
				return sequence, err
			}
		}
		last, _, err := c.last(ctx, key) // sequence 0 if there is none
		switch {
		case err != nil:
			return 0, err
		case last.sequence != expectOf(m):
			return 0, store.Error(key, store.ErrConflict)
		case time.Now().After(end):
			return 0, store.Error(key, fmt.Errorf("%w: another change of the key does not end", store.ErrUnavailable))
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// stored returns the sequence of m if it was stored, by an attempt whose answer was lost.
func (c *client) stored(ctx context.Context, key string, m *nats.Msg) (uint64, error) {
	var found *jetstream.RawStreamMsg
	none := false
	err := c.repeat(ctx, key, func(error) bool { return false }, func(ctx context.Context) (err error) {
		found, err = c.stream.GetMsg(ctx, expectOf(m)+1, jetstream.WithGetMsgSubject(m.Subject))
		if none = errors.Is(err, jetstream.ErrMsgNotFound); none {
			return nil
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	if none || found.Header.Get(jetstream.MsgIDHeader) != m.Header.Get(jetstream.MsgIDHeader) {
		return 0, store.Error(key, store.ErrConflict)
	}
	return found.Sequence, nil
}

// last returns the last message of a key; ok is false if there is none.
func (c *client) last(ctx context.Context, key string) (m message, ok bool, err error) {
	err = c.repeat(ctx, key, func(error) bool { return false }, func(ctx context.Context) error {
		raw, err := c.stream.GetLastMsgForSubject(ctx, subject(key))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		m, err = parse(raw.Subject, raw.Sequence, raw.Header, raw.Data)
		ok = err == nil
		return err
	})
	return m, ok, err
}

// Get implements store.Store.
func (c *client) Get(ctx context.Context, key string) (store.Entry, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Entry{}, err
	}
	m, ok, err := c.last(ctx, key)
	if err != nil {
		return store.Entry{}, err
	}
	if !ok || m.kind == deleted {
		return store.Entry{}, store.Error(key, store.ErrNotFound)
	}
	return store.Entry{Key: key, Value: m.body, Revision: m.revision()}, nil
}

// Create implements store.Store.
func (c *client) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	if err := store.CheckWrite(key, value); err != nil {
		return 0, err
	}
	sequence, err := c.add(ctx, key, func(expect uint64) *nats.Msg { return change(key, expect, put, value) })
	return revisionOf(sequence, put), err
}

// add publishes the first message of a key that does not exist; it may have existed.
func (c *client) add(ctx context.Context, key string, first func(expect uint64) *nats.Msg) (uint64, error) {
	expect := uint64(0)
	for {
		sequence, err := c.publish(ctx, key, first(expect))
		if !errors.Is(err, store.ErrConflict) {
			return sequence, err
		}
		m, ok, err := c.last(ctx, key)
		switch {
		case err != nil:
			return 0, err
		case ok && m.kind != deleted:
			return 0, store.Error(key, store.ErrExists)
		case ok:
			expect = m.sequence
		}
	}
}

// Update implements store.Store.
func (c *client) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if err := store.CheckWrite(key, value); err != nil {
		return 0, err
	}
	if kindOf(revision) != put || sequenceOf(revision) == 0 {
		return 0, store.Error(key, store.ErrConflict)
	}
	sequence, err := c.publish(ctx, key, change(key, sequenceOf(revision), put, value))
	return revisionOf(sequence, put), err
}

// Delete implements store.Store.
func (c *client) Delete(ctx context.Context, key string, revision uint64) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	if kindOf(revision) == deleted || sequenceOf(revision) == 0 {
		return store.Error(key, store.ErrConflict)
	}
	expect := sequenceOf(revision)
	for {
		_, err := c.publish(ctx, key, change(key, expect, deleted, nil))
		if !errors.Is(err, store.ErrConflict) || kindOf(revision) != leased {
			return err
		}
		m, ok, lastErr := c.last(ctx, key)
		if lastErr != nil {
			return lastErr
		}
		if !ok || m.value != revision || m.kind == deleted {
			return err
		}
		expect = m.sequence // renewed meanwhile: the value is the same
	}
}
