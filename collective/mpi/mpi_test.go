package mpi

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"trireme/collective"
	"trireme/collective/collectivetest"
	"trireme/internal/clustertest"
	"trireme/internal/mpi"
	"trireme/rendezvous"
)

const (
	rankVar  = "TRIREME_MPITEST"       // set in processes of mpirun
	apartVar = "TRIREME_MPITEST_APART" // a directory in which each process has its own TMPDIR
)

// mpiruns are the programs under which the tests run, as Debian names them.
var mpiruns = map[string][]string{
	"Open MPI": {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"},
	"MPICH":    {"mpirun.mpich"},
}

// run runs tests of this package in n processes of an mpirun, and returns their output.
func run(t *testing.T, mpirun string, n int, test string, env ...string) (string, error) {
	t.Helper()
	args := mpiruns[mpirun]
	clustertest.Program(t, args[0], "openmpi-bin, mpich")
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	args = append(args[:len(args):len(args)], "-n", fmt.Sprint(n),
		"sh", "-c", `if [ "${`+apartVar+`-}" ]; then TMPDIR=$`+apartVar+`/$$; export TMPDIR; mkdir "$TMPDIR"; fi; exec "$@"`, "sh", os.Args[0], "-test.run", "^"+test+"$", "-test.timeout", "2m")
	if testing.Short() {
		args = append(args, "-test.short")
	}
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Env = append(os.Environ(), append(env, rankVar+"="+mpirun)...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.WaitDelay = 5 * time.Second
	err := c.Run()
	return out.String(), err
}

// TestSuite runs the suite of transports under each mpirun.
func TestSuite(t *testing.T) {
	for mpirun := range mpiruns {
		t.Run(mpirun, func(t *testing.T) {
			for _, n := range []int{2, 3, 5} {
				out, err := run(t, mpirun, n, "TestRank")
				if err != nil || strings.Count(out, "PASS") != n {
					t.Errorf("%d ranks: %v\n%s", n, err, out)
				}
			}
		})
	}
}

// TestRank is one rank of the suite.
func TestRank(t *testing.T) {
	env, s := joined(t)
	meetings := 0
	meet := func() {
		meetings++
		if _, err := s.Await(context.Background(), fmt.Sprint("meeting ", meetings), nil); err != nil {
			t.Error(err)
		}
	}
	collectivetest.RunRank(t, env.Rank, env.WorldSize, func(t *testing.T, cfg collective.Config) collective.World {
		meet() // the last world may have closed later on another rank
		w, err := Open(context.Background(), Config{Config: cfg, Rank: env.Rank, Size: env.WorldSize, OpenMPI: openMPI()})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}, meet)
	if err := mpi.Joined().Finalize(10 * time.Second); err != nil {
		t.Error(err)
	}
}

func openMPI() bool { return os.Getenv("OMPI_COMM_WORLD_SIZE") != "" }

// joined joins the store of a job that run started.
func joined(t *testing.T) (rendezvous.Env, *rendezvous.Store) {
	if os.Getenv(rankVar) == "" {
		t.Skip("a rank of another test")
	}
	env, err := rendezvous.Read(os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	if env.Launcher != "mpirun" {
		t.Fatalf("%+v is not a world of mpirun", env)
	}
	s, err := rendezvous.Join(context.Background(), env, rendezvous.Config{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return env, s
}

// TestWrongMPI: under the mpirun of another MPI, each process would be a world of one rank. Two such processes of
// Open MPI create one directory of files in TMPDIR at once, and sometimes one of them fails, so each has its own
// TMPDIR; the secret replaces the key in it.
func TestWrongMPI(t *testing.T) {
	for mpirun := range mpiruns {
		t.Run(mpirun, func(t *testing.T) {
			out, err := run(t, mpirun, 2, "TestWrongRank", apartVar+"="+t.TempDir(), rendezvous.SecretVar+"=sixteen bytes or more")
			if err != nil || strings.Count(out, "PASS") != 2 {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestWrongRank(t *testing.T) {
	env, _ := joined(t)
	_, err := Open(context.Background(), Config{Rank: env.Rank, Size: env.WorldSize, OpenMPI: !openMPI()})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("this is rank %d of 2, but MPI (", env.Rank)) || !strings.Contains(err.Error(), "process 0 of 1") {
		t.Errorf("error %v", err)
	}
	t.Log(err)
	if p := mpi.Joined(); p != nil {
		if err := p.Finalize(10 * time.Second); err != nil {
			t.Error(err)
		}
	}
}

func FuzzControl(f *testing.F) {
	b := make([]byte, maxControl)
	encodeControl(b, msgFailure, 1, []byte("text"))
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		m := make([]byte, maxControl)
		copy(m, b)
		if kind, rank, content, ok := decodeControl(m, 3); ok {
			again := make([]byte, maxControl)
			encodeControl(again, kind, rank, content)
			if rank > 2 || !bytes.Equal(again[:controlHeader+len(content)], m[:controlHeader+len(content)]) {
				t.Errorf("%v became %d %d %v", m[:controlHeader], kind, rank, content)
			}
		}
	})
}

func FuzzOpen(f *testing.F) {
	label := []byte("label of 8 bytes")
	message := append([]byte{byte(len(label)), 0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0}, append(label, "abc"...)...)
	f.Add(message)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < headBytes+len(label) {
			return // shorter than the buffer of a receive
		}
		body, err := (&messages{key: 7}).open(b, label)
		if err == nil && (!bytes.Equal(b[headBytes:][:len(label)], label) || len(body) > len(b)-headBytes-len(label)) {
			t.Errorf("%v gave %v", b, body)
		}
	})
}
