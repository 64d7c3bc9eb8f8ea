//go:build etcd

package etcdstore

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"trireme/internal/cluster/etcdstore/etcdtest"
	"trireme/internal/cluster/store"
	"trireme/internal/cluster/store/storetest"
)

func none(string) (string, bool) { return "", false }

func open(t *testing.T, addr, prefix string) store.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := Connect(ctx, []string{addr}, prefix, none)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEtcd(t *testing.T) {
	addr := etcdtest.Start(t).Addr
	n := 0
	storetest.Run(t, func(t *testing.T) storetest.Setup {
		n++
		prefix := "trireme/" + strconv.Itoa(n) + "/"
		return storetest.Setup{
			Open:  func(t *testing.T) store.Store { return open(t, addr, prefix) },
			TTL:   2 * time.Second,
			Slack: 3 * time.Second,
			Apart: true,
		}
	})
}

// TestKilled kills etcd while clients change a key, and starts it again.
func TestKilled(t *testing.T) {
	server := etcdtest.Start(t)
	addr := server.Addr
	clients := make([]store.Store, 3)
	for i := range clients {
		clients[i] = open(t, addr, "job/")
		defer clients[i].Close()
	}
	l, err := clients[0].Lease(t.Context(), "x", nil, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(time.Second)
		server.Kill()
		time.Sleep(500 * time.Millisecond)
		server.Restart()
	}()
	storetest.Contend(t, "killed", 60, 50*time.Millisecond, clients[0], clients...)
	<-done
	if l.Err() != nil {
		t.Errorf("the lease: %v", l.Err())
	}
}

func TestErrors(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := Connect(ctx, []string{"127.0.0.1:1"}, "job/", none)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(err.Error(), "try: ") {
		t.Errorf("without etcd: %v", err)
	}
	_, err = Connect(t.Context(), []string{"127.0.0.1:1"}, "job/", func(name string) (string, bool) { return "a.pem", name == "ETCDCTL_CERT" })
	if err == nil || !strings.Contains(err.Error(), "ETCDCTL_KEY") {
		t.Errorf("a certificate without its key: %v", err)
	}
}
