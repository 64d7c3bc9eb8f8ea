//go:build etcd

package cluster

import (
	"os"
	"testing"

	"trireme/internal/cluster/etcdstore/etcdtest"
)

// TestEtcd: two launchers join by an etcd. It keeps the end of the job, so another one needs another id.
func TestEtcd(t *testing.T) {
	server := etcdtest.Start(t)
	launchers := func(id string) (all []*launcher) {
		for i := range 2 {
			l := newLauncher("join", i, 1, 2, 2)
			l.cfg.Backend, l.cfg.Endpoints, l.cfg.RunID, l.cfg.Lookup = etcd, []string{server.Addr}, id, os.LookupEnv
			l.cfg.Conf.Lease = 0 // etcd counts in seconds
			go func() {
				defer close(l.done)
				l.code, l.err = Run(t.Context(), l.cfg)
			}()
			all = append(all, l)
		}
		return all
	}
	for _, l := range launchers("first") {
		if code, err := l.wait(t); code != 0 || err != "" {
			t.Errorf("%s: %d, %s: %s", l.cfg.Name, code, err, l.out.String())
		}
		l.out.waitFor(t, "all: 0 1", 1)
	}
	for _, l := range launchers("first") {
		if code, err := l.wait(t); code != 2 || err != "etcd at "+server.Addr+" has the end of an earlier job first. try: another --rdzv-id" {
			t.Errorf("%s: %d, %s", l.cfg.Name, code, err)
		}
	}
	for _, l := range launchers("second") {
		if code, err := l.wait(t); code != 0 || err != "" {
			t.Errorf("%s: %d, %s: %s", l.cfg.Name, code, err, l.out.String())
		}
	}
}
