package cluster

import (
	"testing"
	"time"
)

// FuzzRecords feeds a machine any records.
func FuzzRecords(f *testing.F) {
	g := generation{RunID: "job", Hosts: []member{{ID: "me", Name: "n0", Ranks: 2}, {ID: "b", Name: "n1", First: 2, Ranks: 1}}, Size: 3}
	f.Add(generationKey, encode(g), hostsPrefix+"b", encode(host{ID: "b", Name: "n1", Order: 2, Rank: -1, Ranks: 1, Least: 1, Most: 2}))
	g.Result = &result{Code: 3}
	f.Add(generationKey, encode(g), endsPrefix+"0/b", encode(end{Code: 1, Ended: true}))
	f.Add(failingPrefix+"0/b", []byte("76"), endsPrefix+"0/me", []byte("{}"))
	f.Add(generationKey, []byte(`{"Number":-1,"Stop":{},"Hosts":[{"ID":"me"},{"ID":"me"}]}`), hostsPrefix+"me", []byte("null"))
	f.Fuzz(func(t *testing.T, key1 string, value1 []byte, key2 string, value2 []byte) {
		s := settings{least: 1, most: 2, elastic: true, restarts: 1, runID: "job", grace: time.Second, Conf: Conf{}.withDefaults()}
		self := host{ID: "me", Name: "n0", Order: 1, Rank: -1, Ranks: 2, Least: 1, Most: 2}
		m := newMachine(s, host{})
		for i, e := range []event{
			synced{}, registered{self}, changed{hostsPrefix + "me", encode(self), 1}, changed{key1, value1, 2}, changed{key2, value2, 3}, tick{},
			ended{number: 0, id: "me", end: end{}}, changed{key2, nil, 4}, tick{}, signaled{15}, tick{},
		} {
			m.step(time.Duration(i)*time.Minute, e)
		}
	})
}
