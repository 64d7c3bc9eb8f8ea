package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"trireme/collective"
	"trireme/internal/conf"
	"trireme/launch"
	"trireme/rendezvous"
	"trireme/train"
)

// The first rank of a machine reports a failure common to all ranks, however late it fails.
func TestExitOf(t *testing.T) {
	alike := fmt.Errorf("step 3: %w", train.ErrNotFinite)
	for _, c := range []struct {
		env  rendezvous.Env
		err  error
		want int
	}{
		{rendezvous.Env{Rank: 0, LocalRank: 0}, alike, CodeFailed},
		{rendezvous.Env{Rank: 1, LocalRank: 1}, alike, CodePeerLost},
		{rendezvous.Env{Rank: 2, LocalRank: 0}, alike, CodeFailed},
		{rendezvous.Env{Rank: 1, LocalRank: 1}, train.ErrStopped, CodeStopped},
		{rendezvous.Env{Rank: 1, LocalRank: 1}, &collective.Failure{Kind: collective.ErrPeerLost, Rank: 0}, CodePeerLost},
		{rendezvous.Env{Rank: 0, LocalRank: 0}, &collective.Failure{Kind: collective.ErrTimeout, Rank: 0, Lost: []int{1}}, CodePeerLost},
		{rendezvous.Env{Rank: 1, LocalRank: 1}, &collective.Failure{Kind: collective.ErrTimeout, Rank: 0, Lost: []int{1}}, CodePeerLost},
		{rendezvous.Env{Rank: 1, LocalRank: 1}, &rendezvous.Failure{Kind: rendezvous.ErrTimeout, Rank: 0}, CodePeerLost},
		{rendezvous.Env{Rank: 1, LocalRank: 1}, &rendezvous.Failure{Kind: rendezvous.ErrLost, Rank: -1}, CodePeerLost},
		{rendezvous.Env{Rank: 1, LocalRank: 1}, &rendezvous.Failure{Kind: rendezvous.ErrLost, Rank: -1, Code: CodeUsage}, CodeUsage},
		{rendezvous.Env{Rank: 1, LocalRank: 1}, &rendezvous.Failure{Kind: rendezvous.ErrRefused, Rank: -1}, CodeUsage},
		{rendezvous.Env{Rank: 1, LocalRank: 1}, errors.New("own"), CodeFailed},
	} {
		if got := codeOf(exitOf(newStop(t), c.env, c.err)); got != c.want {
			t.Errorf("%+v, %v: %d, want %d", c.env, c.err, got, c.want)
		}
	}
}

func TestReport(t *testing.T) {
	_, missing := os.Open("no/such.txt")
	_, configuration := conf.Load(struct {
		A int `yaml:"a"`
	}{}, conf.Text("run.yaml", "a: x\nb: 1\n"))
	for _, c := range []struct {
		name string
		err  error
		code int
		want string
	}{
		{"none", nil, 0, ""},
		{"plain", errors.New("data: row 3 is empty"), 1, "data: row 3 is empty\n"},
		{"joined", errors.Join(errors.New("close a: no space"), errors.New("close b: no space")), 1, "close a: no space; close b: no space\n"},
		{"silent", &Exit{Code: CodeStopped}, 75, ""},
		{"code", fmt.Errorf("wrapped: %w", &Exit{CodeNo, errors.New("does not fit")}), 3, "wrapped: does not fit\n"},
		{"problem", &Problem{Text: "what", Where: "run.yaml:1", Why: "because", Try: "this"}, 1, "what\nrun.yaml:1\nwhy: because\ntry: this\n"},
		{"file", fmt.Errorf("data: %w", missing), 1, "data: no/such.txt: no such file or directory\n"},
		{"configuration", fmt.Errorf("reading: %w", configuration), 2,
			"run.yaml:1:4: a: \"x\" is not an integer\nrun.yaml:2: unknown key \"b\" at the top level. did you mean \"a\"?\n"},
		{"peer lost", &collective.Failure{Kind: collective.ErrPeerLost, Lost: []int{1}, Text: "rank 1 is lost"}, 76, "rank 1 is lost. try: all ranks again (train: with --resume auto)\n"},
		{"timed out", &collective.Failure{Kind: collective.ErrTimeout, Lost: []int{1}, Text: "rank 1 did not join"}, 76,
			"rank 1 did not join. try: a larger parallel.timeout_seconds if that rank is only slow, or all ranks again (train: with --resume auto)\n"},
		{"no heartbeat", &rendezvous.Failure{Kind: rendezvous.ErrLost, Rank: 1, Text: "rank 1 is lost"}, 76, "rank 1 is lost. try: all ranks again (train: with --resume auto)\n"},
		{"another rank's own error", &rendezvous.Failure{Kind: rendezvous.ErrLost, Rank: -1, Text: "rank 1 stopped: no data"}, 76, "rank 1 stopped: no data\n"},
		{"worker", &Exit{137, &launch.Failure{Rank: 2, Code: 137, Signal: 9, Lines: []string{"step 88"}, Others: 1}}, 137,
			"last output of rank 2:\n  step 88\nrank 2 was killed (signal 9) after 0s. 1 other rank stopped because of this\n"},
		{"canceled", context.Canceled, 1, "context canceled\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			if code := report(&b, c.err); code != c.code {
				t.Errorf("code %d, not %d", code, c.code)
			}
			if b.String() != c.want {
				t.Errorf("got\n%swant\n%s", b.String(), c.want)
			}
		})
	}
}

func TestCrashKeepsTheStackOutOfTheWay(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var b strings.Builder
	if code := report(&b, crash(newStop(t), "", "kernel: shapes", []byte("goroutine 1"))); code != CodeCrashed {
		t.Errorf("code %d", code)
	}
	lines := strings.Split(b.String(), "\n")
	if lines[0] != "internal error: kernel: shapes" || strings.Contains(b.String(), "goroutine") {
		t.Errorf("got %s", b.String())
	}
	stack, err := os.ReadFile(strings.TrimPrefix(lines[1], "stack: "))
	if err != nil || !strings.Contains(string(stack), "goroutine 1") {
		t.Errorf("stack %q, %v", stack, err)
	}
}
