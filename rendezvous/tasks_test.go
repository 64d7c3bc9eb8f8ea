package rendezvous

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const (
	step    = "SLURM_JOB_ID=41 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=5 SLURM_STEP_TASKS_PER_NODE=2(x2),1 SLURM_STEP_NODELIST=n[01-02],m1 "
	task3   = step + "SLURM_PROCID=3 SLURM_LOCALID=1 SLURM_NODEID=1 "
	oneHost = "SLURM_JOB_ID=41 SLURM_STEP_ID=2 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_TASKS_PER_NODE=4 SLURM_STEP_NODELIST=n01 SLURM_PROCID=3 SLURM_LOCALID=3 SLURM_NODEID=0 "
	openMPI = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_RANK=1 PMIX_NAMESPACE=77 "
	hydra   = "PMI_RANK=2 PMI_SIZE=3 MPI_LOCALRANKID=2 MPI_LOCALNRANKS=3 PMI_FD=900 "
	secret  = "TRIREME_JOB_SECRET=0123456789abcdef "
)

func TestTasks(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"srun, uneven hosts", task3 + secret, "srun 3/5 local 1/2 group 1/3 n01:P slurm-41.0 restart 0"},
		{"srun, last host", step + "SLURM_PROCID=4 SLURM_LOCALID=0 SLURM_NODEID=2 " + secret, "srun 4/5 local 0/1 group 2/3 n01:P slurm-41.0 restart 0"},
		{"srun, one host", oneHost, "srun 3/4 local 3/4 group 0/1 127.0.0.1:P slurm-41.2 restart 0"},
		{"a requeued job", oneHost + "SLURM_RESTART_COUNT=2", "srun 3/4 local 3/4 group 0/1 127.0.0.1:P slurm-41.2 restart 2"},
		{"srun --mpi=pmi2", oneHost + "PMI_RANK=3 PMI_SIZE=4", "srun 3/4 local 3/4 group 0/1 127.0.0.1:P slurm-41.2 restart 0"},
		{"one task", "SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_TASKS_PER_NODE=1 SLURM_STEP_NODELIST=n1 SLURM_PROCID=0", "single"},
		{"the shell of salloc", "SLURM_JOB_ID=1 SLURM_NTASKS=3 SLURM_TASKS_PER_NODE=2,1 SLURM_NODELIST=n[1-2]", "single"},
		{"the script of sbatch", "SLURM_JOB_ID=1 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_TASKS_PER_NODE=3,1", "single"},
		{"the interactive step of salloc", "SLURM_JOB_ID=1 SLURM_STEP_ID=4294967290 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_TASKS_PER_NODE=4", "single"},
		{"mpirun in a step", openMPI + task3, "mpirun 1/4 local 1/4 group 0/1 127.0.0.1:P mpirun-77 restart 0"},
		{"Open MPI", openMPI, "mpirun 1/4 local 1/4 group 0/1 127.0.0.1:P mpirun-77 restart 0"},
		{"Open MPI, two hosts", strings.Replace(openMPI, "LOCAL_SIZE=4", "LOCAL_SIZE=2", 1) + "MASTER_ADDR=n1 " + secret, "mpirun 1/4 local 1/2 group 1/4 n1:P mpirun-77 restart 0"},
		{"Open MPI, two hosts, no address", strings.Replace(openMPI, "LOCAL_SIZE=4", "LOCAL_SIZE=2", 1) + secret, "MASTER_ADDR is not set"},
		{"MPICH", hydra, "mpirun 2/3 local 2/3 group 0/1 127.0.0.1:P none restart 0"},
		{"mpirun -n 1", "PMI_RANK=0 PMI_SIZE=1 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1", "single"},
		{"PMI alone", "PMI_RANK=0 PMI_SIZE=2", "no variable says which of the 2 processes share a host"},
		{"PMIx alone", "PMIX_RANK=0", "PMIX_RANK is set, but no variable has the number"},

		{"port and address of the user", task3 + secret + "MASTER_ADDR=10.0.0.9 MASTER_PORT=4000", "srun 3/5 local 1/2 group 1/3 10.0.0.9:4000 slurm-41.0 restart 0"},
		{"the same world twice", oneHost + "RANK=3 WORLD_SIZE=4 LOCAL_RANK=3", "srun 3/4 local 3/4 group 0/1 127.0.0.1:P slurm-41.2 restart 0"},
		{"only the size", oneHost + "WORLD_SIZE=4", "srun 3/4 local 3/4 group 0/1 127.0.0.1:P slurm-41.2 restart 0"},
		{"a worker of trireme launch", task3 + "RANK=7 WORLD_SIZE=12 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=x MASTER_ADDR=n9 " + secret, " 7/12 local 1/2 group 3/6 n9:29500 x restart 0"},
		{"ranks of a launcher in each task", task3 + "RANK=7 WORLD_SIZE=12 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=n9 " + secret, " 7/12 local 1/2 group 3/6 n9:29500 none restart 0"},
		{"one rank for all tasks", oneHost + "RANK=0 WORLD_SIZE=4", "RANK=0 contradicts SLURM_PROCID=3 of srun, by which it is 3. try: unset RANK"},
		{"another size", oneHost + "WORLD_SIZE=8", "WORLD_SIZE=8 contradicts SLURM_STEP_NUM_TASKS=4 of srun"},
		{"a size of one", openMPI + "WORLD_SIZE=1", "WORLD_SIZE=1 contradicts OMPI_COMM_WORLD_SIZE=4 of mpirun"},
		{"another local rank", oneHost + "LOCAL_RANK=0", "LOCAL_RANK=0 contradicts SLURM_LOCALID=3"},
		{"another local size", task3 + secret + "LOCAL_WORLD_SIZE=5", "LOCAL_WORLD_SIZE=5 contradicts SLURM_STEP_TASKS_PER_NODE=2(x2),1 of srun, by which it is 2"},

		{"no secret, srun", task3, "need a job secret, or anyone who reaches n01 could join. try: export TRIREME_JOB_SECRET=$(openssl rand -hex 32) before srun"},
		{"no secret, mpirun", strings.Replace(openMPI, "LOCAL_SIZE=4", "LOCAL_SIZE=2", 1) + "MASTER_ADDR=n1", "before mpirun; Open MPI also needs mpirun -x TRIREME_JOB_SECRET"},
		{"counts", strings.Replace(task3, "2(x2),1", "2(x2),2", 1) + secret, "SLURM_STEP_TASKS_PER_NODE=2(x2),2 are 6 tasks, but SLURM_STEP_NUM_TASKS is 5"},
		{"invalid counts", strings.Replace(task3, "2(x2),1", "2(x", 1) + secret, `SLURM_STEP_TASKS_PER_NODE="2(x": "2(x" is not a number of tasks`},
		{"invalid nodes", strings.Replace(task3, "n[01-02]", "n[01-", 1) + secret, `SLURM_STEP_NODELIST="n[01-,m1": it has no ] for [`},
		{"invalid rank", strings.Replace(task3, "SLURM_PROCID=3", "SLURM_PROCID=x", 1), `SLURM_PROCID="x" is not a number`},
		{"rank out of range", "PMI_RANK=3 PMI_SIZE=3 MPI_LOCALRANKID=2 MPI_LOCALNRANKS=3", "PMI_RANK=3 is not between 0 and 2"},
	} {
		e, err := Read(lookupOf(c.in))
		got := fmt.Sprintf("%s %d/%d local %d/%d group %d/%d %s:%d %s restart %d", e.Launcher, e.Rank, e.WorldSize, e.LocalRank, e.LocalWorldSize, e.GroupRank, e.GroupWorldSize, e.MasterAddr, e.MasterPort, e.RunID, e.RestartCount)
		if e.Launcher != "" && e.MasterPort >= 15000 && e.MasterPort < 31000 {
			got = strings.Replace(got, fmt.Sprint(":", e.MasterPort), ":P", 1)
		}
		switch {
		case err != nil:
			got = err.Error()
		case !e.Launched:
			got = "single"
		}
		if !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Another launcher's processes, one per host, are hosts for trireme launch.
func TestTasksOfHosts(t *testing.T) {
	one, err := ReadTasks(lookupOf("SLURM_JOB_ID=41 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=3 SLURM_STEP_TASKS_PER_NODE=1(x3) SLURM_STEP_NODELIST=n[1-3] SLURM_PROCID=2 SLURM_LOCALID=0 SLURM_NODEID=2"))
	if err != nil || one.LocalSize != 1 || one.Host != 2 || one.Hosts != 3 || one.Addr != "n1" || one.Port == 0 {
		t.Errorf("%+v, %v", one, err)
	}
}

func TestExpandNodes(t *testing.T) {
	for in, want := range map[string]string{
		"n1":                                  "n1",
		"n[01-03,7],m1":                       "n01 n02 n03 n7 m1",
		"n[8-11]":                             "n8 n9 n10 n11",
		"n[098-101]":                          "n098 n099 n100 n101",
		"r[0-1]n[2-3]-x":                      "r0n2-x r0n3-x r1n2-x r1n3-x",
		"a,b,a":                               "a b a",
		"":                                    "it is empty",
		"n[3-1]":                              `"3-1" is not a range`,
		"n[a]":                                `"a" is not a range`,
		"n[]":                                 `"" is not a range`,
		"n[1":                                 "no ] for [",
		"n]":                                  "unexpected ']'",
		"n[[1]]":                              "unexpected '['",
		"a,,b":                                "an empty name",
		"a,":                                  "an empty name",
		"n[0-999999999]":                      "more than 131072 names",
		"n[0-9999]m[0-9999]":                  "more than 131072 names",
		"n[0-131071],m":                       "more than 131072 names",
		"n[18446744073709551615-99999999999]": "is not a range",
	} {
		got, err := expandNodes(in)
		text := strings.Join(got, " ")
		if err != nil {
			text = err.Error()
		}
		if err == nil && text != want || err != nil && !strings.Contains(text, want) {
			t.Errorf("%q: %s, want %s", in, text, want)
		}
	}
}

// The names of a list are a list of the same names.
func FuzzExpandNodes(f *testing.F) {
	for _, s := range []string{"n[01-03,7],m1", "r[0-1]n[2-3]-x", "a,,b", "n[", "n[9-10]]", "n[0-99999999]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		names, err := expandNodes(s)
		if err != nil {
			return
		}
		if len(names) == 0 || len(names) > maxWorld {
			t.Fatalf("%q has %d names", s, len(names))
		}
		again, err := expandNodes(strings.Join(names, ","))
		if err != nil || !slices.Equal(names, again) {
			t.Fatalf("%q: %q, then %q, %v", s, names, again, err)
		}
	})
}

func FuzzExpandCounts(f *testing.F) {
	for _, s := range []string{"2(x3),1", "1", "1(x", "1)", "99999999(x99999999)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		counts, err := expandCounts(s)
		if err == nil && (len(counts) == 0 || len(counts) > maxWorld || slices.Min(counts) < 1) {
			t.Fatalf("%q: %v", s, counts)
		}
	})
}

func TestJobEnd(t *testing.T) {
	for env, want := range map[string]int64{"SLURM_JOB_END_TIME=1700000000": 1700000000, "": 0, "SLURM_JOB_END_TIME=": 0, "SLURM_JOB_END_TIME=Unknown": 0, "SLURM_JOB_END_TIME=-5": 0, "SLURM_JOB_END_TIME=0": 0, "SLURM_JOB_END_TIME=9223372036854775807": 0} {
		got := JobEnd(lookupOf(env))
		if got.IsZero() != (want == 0) || want > 0 && got.Unix() != want {
			t.Errorf("%s: %v", env, got)
		}
	}
}
