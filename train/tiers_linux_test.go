package train_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"trireme/checkpoint"
	"trireme/internal/objectstore/objectstoretest"
	"trireme/parallel"
	"trireme/train"
)

var allWorlds = flag.Bool("allworlds", false, "TestSavedByAnyLoadedByAny: all pairs of ranks and strategies, not a few")

// hostMemory returns the memory of a launcher.
func hostMemory(t *testing.T) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("checkpoints", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "checkpoints")
	t.Cleanup(func() { f.Close() })
	return f
}

// TestSavedByAnyLoadedByAny: a checkpoint that any number of ranks with any strategy has saved, between steps, in the
// background, in memory or in an object store, continues with any other to the bits of a run without a break.
func TestSavedByAnyLoadedByAny(t *testing.T) {
	type job struct {
		ranks    int
		strategy string
	}
	var jobs []job
	for _, strategy := range parallel.StrategyNames() {
		for ranks := 1; ranks <= 4; ranks++ {
			jobs = append(jobs, job{ranks, strategy})
		}
	}
	j := newResumable(t, false, false)
	j.config.Training.MaxSteps, j.config.Training.EvalEveryNSteps = 5, 0
	start := func(name string, by job, change func(*train.Config)) train.Config {
		c := j.config
		c.OutputDir, c.Parallel.Strategy = filepath.Join(j.dir, name), by.strategy
		change(&c)
		return c
	}
	through := start("through", jobs[0], func(*train.Config) {})
	j.run(t, through, 1, 0, newRecording())
	want := digest(t, filepath.Join(through.OutputDir, "checkpoints", "step-5"))
	const cut, objects = 3, "s3://" + objectstoretest.Bucket + "/run"
	pairs := map[string]int{}
	for _, mode := range []string{"sync", "async", checkpoint.Memory, "s3"} {
		for s, by := range jobs {
			if !*allWorlds && s%7 != 0 {
				continue
			}
			name := fmt.Sprintf("%s, saved by %d ranks of %s", mode, by.ranks, by.strategy)
			t.Run(name, func(t *testing.T) {
				memory, srv := hostMemory(t), objectstoretest.Start(t)
				c := start(strings.ReplaceAll(name, " ", "-"), by, func(c *train.Config) {
					switch mode {
					case "async":
						c.Checkpoint.Async = true
						fallthrough
					case "sync":
						c.Checkpoint.SaveEveryNSteps = cut
					case "s3":
						c.Checkpoint.SaveEveryNSteps, c.Checkpoint.Dir = cut, objects
					default:
						c.Checkpoint.Tiers = []checkpoint.Tier{{Dir: checkpoint.Memory, SaveEveryNSteps: cut}, {}}
					}
				})
				until := int64(cut)
				if mode == "async" {
					until = 5 // it is committed beside the last step
				}
				j.restart(t, c, by.ranks, until, newRecording(), 0, memory)
				if mode == "async" { // as if the run had ended before its last step
					if err := os.RemoveAll(filepath.Join(c.OutputDir, "checkpoints", "step-5")); err != nil {
						t.Fatal(err)
					}
				}
				for l, to := range jobs {
					if !*allWorlds && (l+s)%7 != 0 {
						continue
					}
					out := filepath.Join(t.TempDir(), "out")
					switch mode {
					case "s3":
						t.Setenv("AWS_ENDPOINT_URL_S3", srv.Copy(t).URL)
					case "sync", "async":
						if err := os.CopyFS(out, os.DirFS(c.OutputDir)); err != nil {
							t.Fatal(err)
						}
					}
					then := start("", to, func(c *train.Config) {
						c.OutputDir = out
						c.Checkpoint.Tiers = []checkpoint.Tier{{Dir: checkpoint.Memory, SaveEveryNSteps: 1000}, {}}
						if mode == "s3" {
							c.Checkpoint.Tiers[1].Dir = objects
						}
					})
					seen := newRecording()
					j.restart(t, then, to.ranks, 0, seen, 1, memory)
					pairs[mode]++
					if !slices.Equal(seen.begun, []int64{cut}) {
						t.Fatalf("loaded by %d ranks of %s after step %v: %q", to.ranks, to.strategy, seen.begun, seen.notes)
					}
					last, _, err := checkpoint.Latest(then.Checkpoint.Directory(out), "")
					if err != nil {
						t.Fatal(err)
					}
					if got := digest(t, last); got != want {
						t.Errorf("loaded by %d ranks of %s: the digest is %s, without a break %s", to.ranks, to.strategy, got, want)
					}
				}
			})
		}
	}
	t.Logf("pairs that were compared: %v", pairs)
}

// TestTiersResume: a job that is restarted continues from the newest checkpoint of both tiers.
func TestTiersResume(t *testing.T) {
	for _, c := range []struct {
		name   string
		disk   int   // steps between checkpoints
		until  int64 // step at which the first start ends
		lose   bool  // the memory
		after  int64
		memory bool // is used
		async  bool
	}{
		{"memory is newer", 4, 7, false, 6, true, false},
		{"both have it", 4, 9, false, 8, true, false},
		{"disk is newer", 3, 9, false, 9, false, false},
		{"the launcher is new", 4, 7, true, 4, false, false},
		{"written beside steps", 100, 8, false, 6, true, true},
		{"written beside one step", 100, 7, false, 6, true, true},
		{"killed while it is written", 100, 6, false, 4, true, true},
		{"killed while the first is written", 100, 2, false, 0, false, true},
		{"killed while memory and disk are written", 4, 4, false, 2, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := newResumable(t, false, false)
			through := j.config
			through.OutputDir = filepath.Join(j.dir, "through")
			j.run(t, through, 2, 0, newRecording())
			j.config.Checkpoint.Async = c.async
			j.config.Checkpoint.Tiers = []checkpoint.Tier{{Dir: checkpoint.Memory, SaveEveryNSteps: 2}, {SaveEveryNSteps: c.disk, Keep: checkpoint.Keep{KeepLastN: 2}}}
			memory, seen := hostMemory(t), newRecording()
			j.restart(t, j.config, 2, c.until, seen, 0, memory)
			if c.lose {
				memory = hostMemory(t)
			}
			j.restart(t, j.config, 2, 0, seen, 1, memory)
			if !slices.Equal(seen.begun, []int64{0, c.after}) {
				t.Errorf("begun after %v, want %d: %q", seen.begun, c.after, seen.notes)
			}
			if used := slices.ContainsFunc(seen.notes, func(n string) bool { return strings.HasPrefix(n, "resuming from memory/step-") }); used != c.memory {
				t.Errorf("resumed from memory: %v: %q", used, seen.notes)
			}
			if got, want := digest(t, filepath.Join(j.config.OutputDir, "checkpoints", "step-11")), digest(t, filepath.Join(through.OutputDir, "checkpoints", "step-11")); got != want {
				t.Errorf("the digest is %s, without a break %s", got, want)
			}
		})
	}
}

// TestCopyContinuesAfterRestart: ranks that are restarted continue from memory, and the copy of the older checkpoint on disk.
func TestCopyContinuesAfterRestart(t *testing.T) {
	j, srv := cutCopy(t, checkpoint.Tier{Dir: checkpoint.Memory, SaveEveryNSteps: 2})
	memory, seen := hostMemory(t), newRecording()
	j.killAfter(t, j.config, 7, reached(srv, http.MethodPut, 3), seen, 0, memory)
	srv.Fail()
	j.killAfter(t, j.config, 0, nil, seen, 1, memory)
	if !slices.Equal(seen.begun, []int64{0, 6}) || !noted(seen, "copied step-4 to ", " of it by an interrupted copy") {
		t.Errorf("begun after %v: %q", seen.begun, seen.notes)
	}
	if steps, left := inLastTier(t, srv); steps[0] != 11 || !slices.Contains(steps, 4) || len(left) > 0 {
		t.Errorf("there are steps %v, left %v", steps, left)
	}
}
