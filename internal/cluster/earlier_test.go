package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"trireme/launch"
)

// TestEndOfEarlierJob: the end in the store is that of an earlier job for a host that joins, whatever arrives
// first, and that of its own job for a host that was lost.
func TestEndOfEarlierJob(t *testing.T) {
	old := changed{generationKey, encode(generation{Hosts: []member{{ID: "old", Name: "n0", Ranks: 1}}, Size: 1, Result: &result{}}), 1}
	me := registered{host{ID: "me", Name: "n0", Order: 2, Rank: -1, Ranks: 1, Least: 1, Most: 1}}
	for _, c := range []struct {
		name   string
		events []event
		want   string
	}{
		{"new host", []event{tick{}, old, synced{}}, "end of an earlier job"},
		{"lost host", []event{synced{}, me, unregistered{}, reset{}, old, synced{}}, ""},
	} {
		s := settings{least: 1, most: 1, restarts: 1, keeps: true, store: "etcd at h:1", runID: "job", grace: time.Second, Conf: Conf{}.withDefaults()}
		m := newMachine(s, host{})
		for i, e := range c.events {
			out, _ := m.step(time.Duration(i+1)*time.Millisecond, e)
			if c.want != "" && slices.ContainsFunc(out, func(a action) bool { _, ok := a.(register); return ok }) {
				t.Errorf("%s: joins at event %d", c.name, i)
			}
		}
		if r := m.result; r == nil || (r.Code == launch.CodeUsage) != (c.want != "") || !strings.Contains(r.Text, c.want) {
			t.Errorf("%s: %+v, want %q", c.name, r, c.want)
		}
	}
}
