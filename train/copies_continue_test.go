package train_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trireme/checkpoint"
	"trireme/collective"
	"trireme/collective/collectivetest"
	"trireme/internal/objectstore/objectstoretest"
	"trireme/model"
	"trireme/model/llama"
	"trireme/train"
)

const lastTier = "s3://" + objectstoretest.Bucket + "/last"

// killAfter trains with two ranks until a step, waits on rank 0 for a channel, and ends without the end of a run, as a killed
// one does. It is a later start of a job with the memory of its launcher.
func (j *resumable) killAfter(t *testing.T, c train.Config, until int64, wait <-chan struct{}, into *recordingSink, count int, memory *os.File) {
	t.Helper()
	meet := collectivetest.NewBootstrap(2)
	collectivetest.Ranks(t, 2, func(w collective.World) error {
		deps := train.Deps{Registry: model.Registry{llama.Family}, World: w, ProcessGroup: meet.Rank(w.Rank()), Run: "a-run", Restart: count, HostMemory: memory, LocalRank: w.Rank()}
		if w.Rank() == 0 {
			deps.Sink = into.sink
		}
		r, err := train.Open(context.Background(), c, deps)
		if err != nil {
			return err
		}
		for rec, err := range r.Steps(context.Background()) {
			if err != nil {
				r.Close()
				return err
			}
			if rec.Step == until {
				break
			}
		}
		if w.Rank() == 0 && wait != nil {
			select {
			case <-wait:
			case <-time.After(time.Minute):
				t.Error("the copy has not reached its request")
			}
		}
		return r.Close()
	})
}

// cutCopy is a run, and the store of its last tier, which is busy after the first of the two files of a copy. A tier before those
// on storage may be given.
func cutCopy(t *testing.T, tiers ...checkpoint.Tier) (*resumable, *objectstoretest.Server) {
	j, srv := newResumable(t, false, false), objectstoretest.Start(t)
	j.config.Checkpoint.Tiers = append(tiers, checkpoint.Tier{SaveEveryNSteps: 4}, checkpoint.Tier{Dir: lastTier, SaveEveryNSteps: 4, Keep: checkpoint.Keep{KeepLastN: 3}})
	srv.Fail(objectstoretest.Failure{Kind: objectstoretest.Busy, From: 3, Method: http.MethodPut})
	return j, srv
}

func reached(srv *objectstoretest.Server, method string, n int) <-chan struct{} {
	done := make(chan struct{})
	srv.After(method, n, func() { close(done) })
	return done
}

func noted(seen *recordingSink, parts ...string) bool {
	return slices.ContainsFunc(seen.notes, func(n string) bool {
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(n, p) })
	})
}

// inLastTier lists the steps in the last tier, and what an interrupted copy has left.
func inLastTier(t *testing.T, srv *objectstoretest.Server) (steps []int, left []string) {
	t.Helper()
	found, err := checkpoint.List(lastTier)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Err != nil {
			t.Error(f.Err)
		}
		steps = append(steps, f.Step)
	}
	for _, key := range srv.Keys() {
		if dir := filepath.Dir(key); srv.Get(dir+"/COMMIT") == nil {
			left = append(left, key)
		}
	}
	return steps, left
}

// TestCopyContinuesAfterResume: a run that is killed in the middle of a copy continues it when it goes on.
func TestCopyContinuesAfterResume(t *testing.T) {
	j, srv := cutCopy(t)
	j.killAfter(t, j.config, 5, reached(srv, http.MethodPut, 3), newRecording(), 0, nil)
	if steps, left := inLastTier(t, srv); len(steps) > 0 || len(left) != 2 {
		t.Fatalf("after the kill there are steps %v and %v", steps, left)
	}
	srv.Fail()
	j.config.Resume = "auto"
	seen := newRecording()
	j.run(t, j.config, 2, 0, seen)
	if !slices.Equal(seen.begun, []int64{4}) || !noted(seen, "copied step-4 to "+lastTier+"/step-4-1-", " of it by an interrupted copy) in the background in ") {
		t.Errorf("begun after %v: %q", seen.begun, seen.notes)
	}
	steps, left := inLastTier(t, srv)
	if steps[0] != 11 || !slices.Contains(steps, 4) || len(left) > 0 {
		t.Errorf("there are steps %v, left %v", steps, left)
	}
	at, err := checkpoint.AtStep(t.Context(), lastTier, 4)
	if err != nil || digest(t, at) != digest(t, filepath.Join(j.config.OutputDir, "checkpoints", "step-4")) {
		t.Errorf("%s has other bits, %v", at, err)
	}
}

// TestCopiesAfterResume: a run that goes on copies again neither what the last tier has nor a step that is not due.
func TestCopiesAfterResume(t *testing.T) {
	j, srv := newResumable(t, false, false), objectstoretest.Start(t)
	j.config.Checkpoint.Tiers = []checkpoint.Tier{{SaveEveryNSteps: 2}, {Dir: lastTier, SaveEveryNSteps: 5}}
	j.killAfter(t, j.config, 7, reached(srv, http.MethodPut, 4), newRecording(), 0, nil) // step 6 is committed by the fourth
	if steps, _ := inLastTier(t, srv); !slices.Equal(steps, []int{6}) {
		t.Fatalf("there are steps %v", steps)
	}
	j.config.Resume = "auto"
	seen := newRecording()
	j.run(t, j.config, 2, 0, seen)
	if !slices.Equal(seen.begun, []int64{6}) || noted(seen, "copied step-6 ") || noted(seen, "copied step-8 ") || !noted(seen, "copied step-11 ") {
		t.Errorf("begun after %v: %q", seen.begun, seen.notes)
	}
}

// TestCopyAfterTheEnd: the copy of the last step fails, once. The same command with --resume auto continues it and trains
// nothing.
func TestCopyAfterTheEnd(t *testing.T) {
	j, srv := newResumable(t, false, false), objectstoretest.Start(t)
	j.config.Checkpoint.Tiers = []checkpoint.Tier{{}, {Dir: lastTier, SaveEveryNSteps: 11}}
	srv.Fail(objectstoretest.Failure{Kind: objectstoretest.Denied, From: 3, Method: http.MethodPut})
	seen := newRecording()
	j.run(t, j.config, 2, 0, seen)
	failed := 0
	for _, n := range seen.notes {
		if strings.HasPrefix(n, "the checkpoint of step 11 is not copied to "+lastTier) {
			failed++
		}
	}
	if failed != 1 {
		t.Errorf("%d failures were noted: %q", failed, seen.notes)
	}
	srv.Fail()
	j.config.Resume = "auto"
	for _, again := range []bool{true, false} {
		seen = newRecording()
		j.run(t, j.config, 2, 0, seen)
		if len(seen.steps) > 0 || noted(seen, "copied step-11 to ", " of it by an interrupted copy") != again || noted(seen, "copied step-11 ") != again {
			t.Errorf("again %v: %q", again, seen.notes)
		}
		if steps, left := inLastTier(t, srv); !slices.Equal(steps, []int{11}) || len(left) > 0 {
			t.Errorf("there are steps %v, left %v", steps, left)
		}
	}
}
