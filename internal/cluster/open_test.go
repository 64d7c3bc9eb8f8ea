package cluster

import (
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"trireme/internal/secureconn"
	"trireme/launch"
)

// TestWaitSaysWhy: the lines about waiting, and the error at the end, name the cause.
func TestWaitSaysWhy(t *testing.T) {
	port, err := launch.FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	closed := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	c := Config{MaxHosts: 2, Endpoints: []string{closed}, NodeRank: new(1), Secret: []byte("a secret of the job")}
	c.Conf.JoinTimeout = 1500 * time.Millisecond
	var mu sync.Mutex
	var notes []string
	_, err = c.open(t.Context(), func(line string) {
		mu.Lock()
		defer mu.Unlock()
		notes = append(notes, line)
	})
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Error(err)
	}
	if want := "waiting for the job's store at " + closed + " since 1s: connection refused (join_timeout 1.5s)"; len(notes) != 1 || notes[0] != want {
		t.Errorf("%q, not %q", notes, want)
	}
	for want, err := range map[string]error{
		"cannot resolve n9: no such host":   &net.OpError{Op: "dial", Err: &net.DNSError{Name: "n9", Err: "no such host"}},
		"another secret or --rdzv-id there": secureconn.ErrKey,
		"another program answers":           secureconn.ErrStranger,
	} {
		if got := cause(err); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
