package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"trireme/rendezvous"
)

func twoRanks(t *testing.T) (envs [2]rendezvous.Env) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for r := range envs {
		envs[r] = rendezvous.Env{Rank: r, WorldSize: 2, LocalRank: r, LocalWorldSize: 2, GroupWorldSize: 1,
			MasterAddr: "127.0.0.1", MasterPort: l.Addr().(*net.TCPAddr).Port, RunID: t.Name(), Secret: []byte("0123456789abcdef"), Launched: true}
	}
	return envs
}

// A rank that prepares for longer than the time-out is awaited as long as it lives; one that never
// connects, until the time-out from the start of the wait.
func TestPreparingIsNoTimeout(t *testing.T) {
	envs, w := twoRanks(t), waits{timeout: 200 * time.Millisecond}
	quick := connectRank(t.Context(), envs[0], w, io.Discard)
	time.Sleep(2 * w.timeout) // it prepares too, alone
	slow := connectRank(t.Context(), envs[1], w, io.Discard)
	<-slow.ready // or a busy machine takes it for one that never comes
	done := make(chan error, 1)
	go func() {
		_, err := quick.join()
		done <- err
	}()
	select {
	case err := <-done:
		t.Error("did not wait:", err)
	case <-time.After(5 * w.timeout):
	}
	if _, err := slow.join(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	go func() { done <- slow.close(nil) }()
	if err := errors.Join(quick.close(nil), <-done); err != nil {
		t.Error(err)
	}

	for _, env := range twoRanks(t) {
		alone := connectRank(t.Context(), env, w, io.Discard)
		_, err := alone.join()
		var late *rendezvous.Failure
		if other := 1 - env.Rank; !errors.As(err, &late) || late.Rank != other || codeOf(exitOf(newStop(t), env, err)) != CodePeerLost {
			t.Errorf("rank %d: %v", env.Rank, err)
		}
		alone.close(err)
	}
}

// The loss of a rank cancels the preparation of another, with the cause.
func TestLostWhilePreparing(t *testing.T) {
	envs := twoRanks(t)
	w := waits{timeout: time.Minute}
	a, b := connectRank(t.Context(), envs[0], w, io.Discard), connectRank(t.Context(), envs[1], w, io.Discard)
	<-a.ready
	<-b.ready
	go b.close(fmt.Errorf("no such file"))
	<-a.ctx.Done()
	err := a.cause(fmt.Errorf("reading: %w", context.Canceled))
	a.close(err)
	if err == nil || !strings.Contains(err.Error(), "rank 1 stopped: no such file") {
		t.Error(err)
	}
}
