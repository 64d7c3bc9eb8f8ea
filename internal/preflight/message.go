package preflight

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"trireme/internal/host"
)

// about describes a host to the others.
type about struct {
	Name    string     `json:"name"`
	Address string     `json:"address"`
	Listen  string     `json:"listen"` // HOST:PORT of its probes
	Digest  string     `json:"digest,omitempty"`
	Facts   host.Facts `json:"facts"`
	Err     string     `json:"error,omitempty"` // why it cannot listen
}

// hostname returns the name that other hosts resolve. A job may call the host otherwise.
func (a *about) hostname() string { return cmp.Or(a.Facts.Name, a.Name) }

// Link is the way from one host to another, as the first one measured it.
type Link struct {
	State   LinkState     `json:"state"`
	Err     string        `json:"error,omitempty"`
	Latency time.Duration `json:"latency_ns,omitempty"` // shortest round trip
	Offset  time.Duration `json:"offset_ns,omitempty"`  // of the other's clock
	Largest int           `json:"largest,omitempty"`    // message that arrived, bytes
	Speed   int64         `json:"speed,omitempty"`      // bytes per second; 0: not measured
	Names   []string      `json:"names,omitempty"`      // addresses of the other's name here
	NameErr string        `json:"name_error,omitempty"`
}

// LinkState is the result of connecting.
type LinkState string

// The states.
const (
	Connected   LinkState = "connected"
	Refused     LinkState = "refused"   // nothing listens, or a firewall rejects
	TimedOut    LinkState = "timed out" // packets are lost
	NoRoute     LinkState = "no route"
	OtherKey    LinkState = "other secret"
	OtherServer LinkState = "another program answers"
	Failed      LinkState = "failed"
)

// gather exchanges a message of each host and decodes all.
func gather[T any](ctx context.Context, cfg *Config, step string, mine T) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Limit)
	defer cancel()
	b, err := json.Marshal(mine)
	if err != nil {
		return nil, fmt.Errorf("preflight: %w", err)
	}
	all, err := cfg.Exchange.AllGather(ctx, cfg.Prefix+step, b)
	if err != nil {
		return nil, fmt.Errorf("preflight: step %s: %w", step, err)
	}
	return decode[T](step, all)
}

func decode[T any](step string, all [][]byte) ([]T, error) {
	out := make([]T, len(all))
	for i, b := range all {
		if err := json.Unmarshal(b, &out[i]); err != nil {
			return nil, fmt.Errorf("preflight: step %s: message of host %d: %w", step, i, err)
		}
	}
	return out, nil
}
