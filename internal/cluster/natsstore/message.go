package natsstore

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

const (
	streamName = "store"
	root       = "s." // of all subjects

	history = 256 // messages kept per key, for watches that are behind

	kindHeader  = "K" // kind of a change
	ttlHeader   = "T" // ttl of a lease, milliseconds
	valueHeader = "R" // in a renewal: the revision of the change that it renews
)

// kind is a kind of change, and the two lowest bits of a revision.
type kind uint64

const (
	put kind = iota
	leased
	deleted
)

func revisionOf(seq uint64, k kind) uint64 { return seq<<2 | uint64(k) }

func sequenceOf(revision uint64) uint64 { return revision >> 2 }

func kindOf(revision uint64) kind { return kind(revision & 3) }

// subject returns the subject of a key, or of a prefix.
func subject(key string) string {
	var b strings.Builder
	b.WriteString(root)
	for i := range len(key) {
		switch c := key[i]; {
		case c == '/':
			b.WriteByte('.')
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

// keyOf is the inverse of subject.
func keyOf(subject string) (string, error) {
	text, ok := strings.CutPrefix(subject, root)
	if !ok {
		return "", fmt.Errorf("natsstore: subject %q", subject)
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '.':
			b.WriteByte('/')
		case '=':
			if i+2 >= len(text) {
				return "", fmt.Errorf("natsstore: subject %q", subject)
			}
			n, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
			if err != nil {
				return "", fmt.Errorf("natsstore: subject %q", subject)
			}
			b.WriteByte(byte(n))
			i += 2
		default:
			b.WriteByte(text[i])
		}
	}
	return b.String(), nil
}

// message is a message of the stream.
type message struct {
	subject  string
	sequence uint64
	previous uint64 // sequence of the message before it on the subject, or 0
	id       string
	kind     kind
	ttl      time.Duration // 0 without a lease
	value    uint64        // in a renewal: the revision that it renews; 0 in others
	body     []byte
}

func parse(subject string, sequence uint64, h nats.Header, body []byte) (m message, err error) {
	m = message{subject: subject, sequence: sequence, id: h.Get(jetstream.MsgIDHeader), body: body}
	number := func(name string) (n uint64) {
		if text := h.Get(name); text != "" && err == nil {
			n, err = strconv.ParseUint(text, 10, 62)
		}
		return n
	}
	m.previous = number(jetstream.ExpectedLastSubjSeqHeader)
	m.kind = kind(number(kindHeader))
	m.ttl = time.Duration(number(ttlHeader)) * time.Millisecond
	m.value = number(valueHeader)
	if err != nil || m.kind > deleted {
		return message{}, fmt.Errorf("natsstore: message %d of %s has wrong headers: %v", sequence, subject, err)
	}
	return m, nil
}

// revision is the revision of the entry after the message.
func (m *message) revision() uint64 {
	if m.value != 0 {
		return m.value
	}
	return revisionOf(m.sequence, m.kind)
}

// change returns a message that is stored if the last one of its subject has the sequence expect.
func change(key string, expect uint64, k kind, body []byte) *nats.Msg {
	m := nats.NewMsg(subject(key))
	m.Data = body
	m.Header.Set(jetstream.MsgIDHeader, nuid.Next())
	m.Header.Set(kindHeader, strconv.FormatUint(uint64(k), 10))
	setExpect(m, expect)
	return m
}

func setExpect(m *nats.Msg, expect uint64) {
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(expect, 10))
}

func expectOf(m *nats.Msg) uint64 {
	n, _ := strconv.ParseUint(m.Header.Get(jetstream.ExpectedLastSubjSeqHeader), 10, 64)
	return n
}

// lease adds the ttl of a lease, and in a renewal the revision that it renews, to a change.
func lease(m *nats.Msg, ttl time.Duration, renews uint64) *nats.Msg {
	m.Header.Set(ttlHeader, strconv.FormatInt(max(1, ttl.Milliseconds()), 10))
	if renews != 0 {
		m.Header.Set(valueHeader, strconv.FormatUint(renews, 10))
	}
	return m
}
