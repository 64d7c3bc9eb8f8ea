package rendezvous

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"trireme/internal/secureconn"
)

func lookupOf(s string) func(string) (string, bool) {
	return func(k string) (string, bool) {
		for kv := range strings.FieldsSeq(s) {
			if n, v, _ := strings.Cut(kv, "="); n == k {
				return v, true
			}
		}
		return "", false
	}
}

func TestRead(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "0/1 local 0/1 group 0/1 127.0.0.1:0 false"},
		{"WORLD_SIZE=1", "0/1 local 0/1 group 0/1 127.0.0.1:0 false"},
		{"RANK=1 WORLD_SIZE=2", "1/2 local 1/2 group 0/1 127.0.0.1:29500 true"},
		{"RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 GROUP_RANK=1 MASTER_ADDR=n0 MASTER_PORT=1234 TRIREME_JOB_SECRET=0123456789abcdef", "5/8 local 1/4 group 1/2 n0:1234 true"},
		{"RANK=5 WORLD_SIZE=8 LOCAL_WORLD_SIZE=4 MASTER_ADDR=n0", "need a job secret, or anyone who reaches n0 could join. try: (umask 077; openssl rand -hex 32 > job.secret), copy that file to every machine, and set TRIREME_JOB_SECRET_FILE=job.secret"},
		{"RANK=4 WORLD_SIZE=8 LOCAL_RANK=2 LOCAL_WORLD_SIZE=4 TRIREME_PROCESS_RANKS=3 MASTER_ADDR=n0", "TRIREME_PROCESS_RANKS=3 is not between 1 and 2"},
		{"RANK=1", "WORLD_SIZE is not"},
		{"WORLD_SIZE=2", "RANK is not"},
		{"RANK=2 WORLD_SIZE=2", "RANK=2 is not between 0 and 1"},
		{"RANK=x WORLD_SIZE=2", `RANK="x" is not a number`},
		{"RANK=0 WORLD_SIZE=99999999", "WORLD_SIZE=99999999 is not between"},
		{"RANK=0 WORLD_SIZE=2 MASTER_PORT=70000", "MASTER_PORT=70000"},
		{"RANK=0 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2", "MASTER_ADDR is not set"},
		{"RANK=0 WORLD_SIZE=2 TRIREME_JOB_SECRET=short", "TRIREME_JOB_SECRET has 5 bytes"},
		{"RANK=0 WORLD_SIZE=2 TRIREME_JOB_SECRET_FD=x", "is not a file descriptor"},
	} {
		e, err := Read(lookupOf(c.in))
		got := fmt.Sprintf("%d/%d local %d/%d group %d/%d %s:%d %v", e.Rank, e.WorldSize, e.LocalRank, e.LocalWorldSize, e.GroupRank, e.GroupWorldSize, e.MasterAddr, e.MasterPort, e.Launched)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%q: %s, want %s", c.in, got, c.want)
		}
	}
}

// Read inverts Variables.
func TestVariablesRoundTrip(t *testing.T) {
	want := Env{Rank: 5, WorldSize: 8, LocalRank: 1, LocalWorldSize: 4, Ranks: 3, GroupRank: 1, GroupWorldSize: 2, MasterAddr: "n0", MasterPort: 1234, RunID: "j", RestartCount: 2, MaxRestarts: 3, Launched: true, Secret: []byte("0123456789abcdef")}
	got, err := Read(lookupOf(strings.Join(want.Variables(), " ") + " TRIREME_JOB_SECRET=0123456789abcdef"))
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%+v, %v", got, err)
	}
}

// Split and Multiply give each rank of a process its numbers.
func TestProcessRanks(t *testing.T) {
	describe := func(e Env) string {
		return fmt.Sprintf("%d/%d local %d/%d group %d/%d of %d", e.Rank, e.WorldSize, e.LocalRank, e.LocalWorldSize, e.GroupRank, e.GroupWorldSize, e.Ranks)
	}
	e := Env{Rank: 3, WorldSize: 4, LocalRank: 1, LocalWorldSize: 2, GroupRank: 1, GroupWorldSize: 2, Ranks: 1}
	if got := describe(e.Split()[0]); got != "3/4 local 1/2 group 1/2 of 1" || len(e.Split()) != 1 {
		t.Error(got)
	}
	e, err := e.Multiply(3)
	if got := describe(e); err != nil || got != "9/12 local 3/6 group 1/2 of 3" {
		t.Error(got, err)
	}
	if i, n := e.Processes(); i != 3 || n != 4 {
		t.Errorf("process %d of %d", i, n)
	}
	var all []string
	for _, one := range e.Split() {
		all = append(all, describe(one))
	}
	if got := strings.Join(all, "; "); got != "9/12 local 3/6 group 1/2 of 1; 10/12 local 4/6 group 1/2 of 1; 11/12 local 5/6 group 1/2 of 1" {
		t.Error(got)
	}
	if _, err := e.Multiply(maxWorld); err == nil || !strings.Contains(err.Error(), "are more than 131072 ranks") {
		t.Error(err)
	}
}

func FuzzDecodeMessage(f *testing.F) {
	f.Add(message{id: 7, op: opSet, timeout: time.Second, key: "key", value: []byte("value")}.encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMessage(b)
		if err == nil && !bytes.Equal(m.encode(), b) && m.timeout <= 1<<31*time.Millisecond {
			t.Fatalf("%x became %x", b, m.encode())
		}
	})
}

func FuzzDecodeList(f *testing.F) {
	f.Add(encodeList([][]byte{[]byte("a"), nil, []byte("bc")}))
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		vs, err := decodeList(b)
		if err == nil && !bytes.Equal(encodeList(vs), b) {
			t.Fatalf("%x became %x", b, encodeList(vs))
		}
	})
}

func FuzzDecodeProcess(f *testing.F) {
	f.Add(thisProcess().encode())
	f.Add(process{pid: 1, host: "\x1b[2J"}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodeProcess(b)
		if err == nil && (!bytes.Equal(p.encode(), b) || strings.ContainsAny(p.name(1), "\n\x1b\x00")) {
			t.Fatalf("%x became %+v", b, p)
		}
	})
}

func FuzzDecodeFailure(f *testing.F) {
	f.Add((&Failure{Rank: 3, Text: "it rains"}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := decodeFailure(ErrLost, b); got.Rank < -1 || len(got.Text) > max(len(b), 64) {
			t.Fatalf("%x became %+v", b, got)
		}
	})
}

// FuzzServer sends arbitrary requests in any order: rank 0 neither panics nor blocks.
func FuzzServer(f *testing.F) {
	say := func(rank byte, m message) []byte {
		b := m.encode()
		return append([]byte{rank, byte(len(b))}, b...)
	}
	gather := message{id: 1, op: opGather, timeout: time.Second, key: "k", value: []byte("v")}
	await := message{id: 2, op: opAwait, timeout: time.Millisecond, key: "k"}
	f.Add(slices.Concat(say(0, gather), say(1, await), say(2, gather), say(1, message{id: 3, op: opBye}), say(0, gather)))
	f.Add(slices.Concat(say(0, await), say(1, message{op: opAbort, value: (&Failure{Rank: 2, Text: "t"}).encode()}), say(2, message{op: opHeartbeat})))
	f.Add(slices.Concat(say(0, message{op: opAdd, key: "n", value: make([]byte, 8)}), say(1, message{op: opGet, key: "n"}), say(2, message{op: opTryGet, key: "n"}), say(2, message{op: opLost})))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := secureconn.Listen(t.Context(), "127.0.0.1:0", secureconn.Config{Key: make([]byte, 32)}, nil)
		if err != nil {
			t.Skip(err)
		}
		s := newServer(l, 3, Config{Heartbeat: time.Hour}.withDefaults())
		defer s.close(0)
		var peers [3]*peer
		for r := range peers {
			peers[r] = &peer{rank: r, out: make(chan []byte, 8), watchdog: newWatchdog(r, thisProcess(), s.cfg)}
			if _, why := s.admit(peers[r], hello{rank: r, world: 3}); why != nil {
				t.Fatal(why)
			}
		}
		for len(b) >= 2 {
			p, n := peers[b[0]%3], min(int(b[1]), len(b)-2)
			if m, err := decodeMessage(b[2:][:n]); err == nil {
				s.handle(p, m)
			}
			b = b[2+n:]
		}
		for _, p := range peers {
			s.remove(p, "it left")
			for m := range p.out {
				if _, err := decodeMessage(m); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
