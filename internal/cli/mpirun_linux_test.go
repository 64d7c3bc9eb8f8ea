package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trireme/internal/netns"
)

// mpiruns are the programs of two MPIs, as Debian names them.
var mpiruns = map[string][]string{
	"Open MPI": {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"},
	"MPICH":    {"mpirun.mpich"},
}

// TestMPI runs a job by mpirun, over each transport: one world with the bits of --nproc.
func TestMPI(t *testing.T) {
	needPrograms(t, "openmpi-bin mpich", "mpirun.openmpi", "mpirun.mpich")
	dir := smallJob(t, 3)
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T, want int, args ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := exec.CommandContext(ctx, args[0], args[1:]...)
		c.Dir = dir
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		c.WaitDelay = 5 * time.Second
		if c.Run(); c.ProcessState.ExitCode() != want {
			t.Fatalf("%s: %v, want code %d\n%s", strings.Join(args, " "), c.ProcessState, want, out.String())
		}
		return out.String()
	}
	run(t, 0, exe, "train", "--config", "run.yaml", "--output_dir", "own", "--nproc", "4")
	for name, mpirun := range mpiruns {
		for _, transport := range []string{"auto", "mpi"} {
			t.Run(name+" "+transport, func(t *testing.T) {
				to := strings.ReplaceAll(name, " ", "") + transport
				args := append(append([]string{}, mpirun...), "-n", "4", exe, "train", "--config", "run.yaml", "--output_dir", to, "--set", "parallel.backend="+transport)
				if out := run(t, 0, args...); strings.Count(out, "world: 4 ranks on this machine, started by mpirun, over ") != 1 {
					t.Error(out)
				}
				if !bytes.Equal(weightsOf(t, dir, "own"), weightsOf(t, dir, to)) {
					t.Error("the weights differ from those of --nproc 4")
				}
			})
		}
		t.Run(name+" failure", func(t *testing.T) { // of one rank: the others end, and so does mpirun
			args := append(append([]string{}, mpirun...), "-n", "3", "sh", "-c",
				fmt.Sprintf(`[ "${OMPI_COMM_WORLD_RANK-$PMI_RANK}" = 1 ] && more="--set training.learning_rate=0.5"; exec %s train --config run.yaml --output_dir failed --set parallel.backend=mpi $more`, exe))
			out := run(t, 2, args...)
			if !strings.Contains(out, "rank 1 has another configuration than rank 0: training.learning_rate is 0.5") {
				t.Error(out)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "runs")); err == nil {
		t.Error("a process has trained alone")
	}
}

// TestMPIHosts runs a job on two hosts without a secret and an address: they travel by MPI. A script starts
// mpirun's daemons in the namespaces, in place of ssh.
func TestMPIHosts(t *testing.T) {
	needPrograms(t, "openmpi-bin mpich", "mpirun.openmpi", "mpirun.mpich")
	net := netns.New(t, 2)
	dir := smallJob(t, 3)
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1; shift\ncase $host in\n"
	for _, h := range net.Hosts {
		script += h.Name + ") exec"
		for _, a := range h.Command(t.Context(), "sh", "-c").Args {
			script += " '" + a + "'"
		}
		script += " \"$*\";;\n"
	}
	agent := filepath.Join(dir, "agent")
	if err := os.WriteFile(agent, []byte(script+"esac\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	train := func(run, transport string) []string {
		return []string{exe, "train", "--config", "run.yaml", "--output_dir", run, "--set", "parallel.backend=" + transport}
	}
	run := func(t *testing.T, args ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := net.Hosts[0].Command(ctx, args[0], args[1:]...)
		c.Dir = dir
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		c.WaitDelay = 5 * time.Second
		if err := c.Run(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out.String())
		}
		return out.String()
	}
	run(t, append(train("own", "auto"), "--nproc", "4")...)
	for name, mpirun := range map[string][]string{
		"Open MPI": {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "plm_rsh_agent", agent, "--host", "node0:2,node1:1", "-n", "3"},
		"MPICH":    {"mpirun.mpich", "-launcher", "rsh", "-launcher-exec", agent, "-hosts", "node0:2,node1:1", "-n", "3"},
	} {
		for _, transport := range []string{"auto", "mpi"} {
			t.Run(name+" "+transport, func(t *testing.T) {
				to := strings.ReplaceAll(name, " ", "") + transport
				out := run(t, append(append([]string{}, mpirun...), train(to, transport)...)...)
				if !strings.Contains(out, "world: 3 ranks on 2 machines, started by mpirun, over ") || !strings.Contains(out, "rendezvous at 10.77.0.1:") {
					t.Error(out)
				}
				if !bytes.Equal(weightsOf(t, dir, "own"), weightsOf(t, dir, to)) {
					t.Error("the weights differ from those of --nproc 4")
				}
			})
		}
	}
}
