package natsstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"trireme/internal/cluster/store"
)

// idle is the interval of signs of life in a watch without changes; after two of them it subscribes again.
const idle = 500 * time.Millisecond

// Watch implements store.Store.
func (c *client) Watch(ctx context.Context, prefix string) (*store.Watch, error) {
	if err := store.CheckPrefix(prefix); err != nil {
		return nil, err
	}
	f := &feed{client: c, filter: subject(prefix) + ">"}
	if err := c.repeat(ctx, prefix, func(error) bool { return false }, f.subscribe); err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(store.Error(prefix, store.ErrClosed)) })
	return store.NewWatch(ctx, func(ctx context.Context, emit func(store.Event) error) (err error) {
		defer stop()
		defer func() { cancel(err) }() // the cause, which the watch reports
		defer f.unsubscribe()
		sent := map[string]uint64{} // revisions of entries
		return f.run(ctx, func(m *message) error {
			if m == nil {
				return emit(store.Event{Kind: store.Synced})
			}
			key, err := keyOf(m.subject)
			if err != nil {
				return err
			}
			before, exists := sent[key]
			switch {
			case m.kind == deleted && !exists, m.kind != deleted && exists && before == m.revision():
				return nil // deleted before the start; a renewal
			case m.kind == deleted:
				delete(sent, key)
			default:
				sent[key] = m.revision()
			}
			e := store.Event{Kind: store.Put, Entry: store.Entry{Key: key, Value: m.body, Revision: m.revision()}}
			if m.kind == deleted {
				e.Kind, e.Value = store.Deleted, nil
			}
			return emit(e)
		})
	}), nil
}

// feed reads the messages of subjects: the last of each, then all that follow. It subscribes again, after the
// last message that it has read, when the connection or the server behind it is lost.
type feed struct {
	client  *client
	filter  string
	sub     *nats.Subscription
	start   uint64 // sequence of the leader's last message when the feed began, or 0
	pending uint64 // messages that the sending server had when the feed began and that were not read yet
	next    uint64 // first sequence of the stream that was not read; 0 before the first
	count   uint64 // messages read of this subscription
	synced  bool
}

func (f *feed) unsubscribe() {
	if f.sub != nil {
		f.sub.Unsubscribe()
		f.sub = nil
	}
}

// subscribe first asks the leader which message is the last. Of three servers, the one that sends the messages may be
// behind the leader and lack changes that the leader has confirmed.
func (f *feed) subscribe(ctx context.Context) error {
	f.unsubscribe()
	if f.next == 0 {
		last, err := f.client.stream.GetLastMsgForSubject(ctx, f.filter)
		switch {
		case err == nil:
			f.start = last.Sequence
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return err
		}
	}
	inbox := f.client.nc.NewInbox()
	sub, err := f.client.nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	cfg := jetstream.ConsumerConfig{
		DeliverSubject: inbox, FilterSubject: f.filter, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
		AckPolicy: jetstream.AckNonePolicy, MaxDeliver: 1, IdleHeartbeat: idle, InactiveThreshold: 5 * time.Second,
		MemoryStorage: true, Replicas: 1,
	}
	if f.next != 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, f.next
	}
	consumer, err := f.client.stream.CreateOrUpdatePushConsumer(ctx, cfg)
	if err != nil {
		sub.Unsubscribe()
		return err
	}
	f.sub, f.count = sub, 0
	if !f.synced {
		f.pending = consumer.CachedInfo().NumPending + consumer.CachedInfo().Delivered.Consumer
	}
	return nil
}

// run calls each with messages in order, and once with nil after those that existed at the start.
func (f *feed) run(ctx context.Context, each func(*message) error) error {
	if err := f.connect(ctx); err != nil {
		return err
	}
	last := map[string]uint64{} // sequence of the last message of a subject
	for {
		if !f.synced && f.pending == 0 && (f.start == 0 || f.next > f.start) {
			f.synced = true
			if err := each(nil); err != nil {
				return err
			}
		}
		m, err := f.read(ctx)
		if err != nil {
			return err
		}
		if f.synced && m.previous != last[m.subject] {
			return fmt.Errorf("natsstore: a watch of %s is behind: changes between %d and %d were dropped. watch again", m.subject, last[m.subject], m.sequence)
		}
		last[m.subject] = m.sequence
		if f.pending > 0 {
			f.pending--
		}
		if err := each(&m); err != nil {
			return err
		}
	}
}

// connect subscribes if there is no subscription.
func (f *feed) connect(ctx context.Context) error {
	for f.sub == nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		attempt, end := f.client.attempt(ctx)
		err := f.subscribe(attempt)
		end()
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return nil
}

// read returns the next message, over any number of subscriptions.
func (f *feed) read(ctx context.Context) (message, error) {
	for {
		if ctx.Err() != nil {
			return message{}, context.Cause(ctx)
		}
		if err := f.connect(ctx); err != nil {
			return message{}, err
		}
		wait, cancel := context.WithTimeout(ctx, 2*idle)
		raw, err := f.sub.NextMsgWithContext(wait)
		cancel()
		if err != nil {
			f.unsubscribe()
			continue
		}
		if raw.Header.Get("Status") != "" { // a sign of life, with the number of messages before it
			if n, err := strconv.ParseUint(raw.Header.Get("Nats-Last-Consumer"), 10, 64); err != nil || n != f.count {
				f.unsubscribe()
			}
			continue
		}
		meta, err := raw.Metadata()
		if err != nil || meta.Sequence.Consumer != f.count+1 {
			f.unsubscribe()
			continue
		}
		f.count++
		f.next = meta.Sequence.Stream + 1
		return parse(raw.Subject, meta.Sequence.Stream, raw.Header, raw.Data)
	}
}
