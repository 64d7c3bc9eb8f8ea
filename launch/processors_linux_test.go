package launch

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"trireme/internal/numa"
)

// All threads of each worker have its processors, and the launcher's keep theirs. Ranks divide the threads as if
// they were unbound.
func TestProcessors(t *testing.T) {
	allowed, err := numa.Allowed()
	if err != nil || len(allowed) < 2 {
		t.Skipf("needs two processors and a system that binds threads: %v, %v", allowed, err)
	}
	first, second := numa.CPUs{allowed[0]}, allowed[1:]
	var out buffer
	c := config("affinity", 2, &out)
	c.Output, c.Processors = showAll, [][]int{first, second}
	if code, err := Run(t.Context(), c); code != 0 || err != nil {
		t.Fatalf("%d, %v\n%s", code, err, out.String())
	}
	for rank, cpus := range []numa.CPUs{first, second} {
		want := fmt.Sprintf("[rank %d] on %v with %d\n", rank, cpus, min(runtime.GOMAXPROCS(0), 2*len(cpus)))
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %q", want, out.String())
		}
	}
	c.Processors = [][]int{first}
	if code, err := Run(t.Context(), c); code != CodeUsage || err == nil {
		t.Errorf("processors of one worker of two: %d, %v", code, err)
	}
	c.Processors = [][]int{first, {8000}}
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "8000") {
		t.Errorf("a processor that does not exist: %v", err)
	}
	var lists []string
	for range 100 { // the threads that started workers end
		if lists, err = threadProcessors(); err != nil {
			t.Fatal(err)
		}
		if slices.Equal(lists, []string{allowed.String()}) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("threads of the launcher have processors %q, not %v", lists, allowed)
}
