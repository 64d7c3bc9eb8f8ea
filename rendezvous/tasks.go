package rendezvous

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"trireme/fault"
)

// Tasks describes the processes that a scheduler (srun) or mpirun started together, and this one among
// them.
type Tasks struct {
	Launcher             string // srun or mpirun
	Rank, Size           int    // of this process, and the number of processes
	LocalRank, LocalSize int    // on this host
	Host, Hosts          int    // index of this host, and the number of hosts; mpirun: of processes, unless there is one host
	Addr                 string // host of rank 0; 127.0.0.1 if there is one host, "" if the launcher does not give it
	Port                 int    // derived from RunID
	RunID                string // the same for all processes; "" if the launcher does not give it
	Restarts             int    // of the job

	rankVar, sizeVar, localRankVar, localSizeVar string // variables of the numbers, for messages
}

// ReadTasks reads the variables of srun, Open MPI's mpirun, and mpirun of MPICH or Intel MPI. It returns nil
// if none of them started this process, or only this one: also in the shell of salloc or sbatch, where
// several tasks are allocated but one process runs. mpirun starts its processes by srun on some clusters,
// so its variables are read first. Errors name the variable.
func ReadTasks(lookup func(string) (string, bool)) (*Tasks, error) {
	r := &reader{lookup: lookup}
	has := func(names ...string) bool {
		for _, name := range names {
			if v := r.text(name, ""); v == "" {
				return false
			}
		}
		return true
	}
	var t *Tasks
	switch {
	case has("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"):
		t = r.openMPI()
	case has("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"):
		t = r.hydra()
	case has("SLURM_STEP_ID", "SLURM_PROCID") && !r.slurmShell():
		t = r.slurm()
	case has("PMI_RANK", "PMI_SIZE"):
		if n := r.number("PMI_SIZE", 1, 1, maxWorld); n > 1 && r.err == nil {
			return nil, fault.Try(fmt.Errorf("rendezvous: PMI_RANK and PMI_SIZE=%d are set, but no variable says which of the %d processes share a host", n, n),
				"RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE for each process, as torchrun sets them")
		}
	case has("PMIX_RANK"):
		return nil, fault.Try(errors.New("rendezvous: PMIX_RANK is set, but no variable has the number of processes"),
			"mpirun of Open MPI or MPICH, or RANK and WORLD_SIZE for each process, as torchrun sets them")
	}
	if r.err != nil {
		return nil, r.err
	}
	if t == nil || t.Size == 1 {
		return nil, nil
	}
	if t.LocalSize == t.Size {
		t.Host, t.Hosts, t.Addr = 0, 1, "127.0.0.1"
	}
	t.Port = portOf(t.RunID)
	return t, nil
}

// OpenMPI reports whether the processes were started for Open MPI, else for an MPI with the binary interface of
// MPICH: by its mpirun, or by a scheduler with PMIx.
func OpenMPI(lookup func(string) (string, bool)) bool {
	_, mpirun := lookup("OMPI_COMM_WORLD_SIZE")
	_, pmix := lookup("PMIX_RANK")
	_, pmi := lookup("PMI_RANK")
	return mpirun || pmix && !pmi
}

func (r *reader) openMPI() *Tasks {
	t := r.numbers(&Tasks{Launcher: "mpirun", rankVar: "OMPI_COMM_WORLD_RANK", sizeVar: "OMPI_COMM_WORLD_SIZE",
		localRankVar: "OMPI_COMM_WORLD_LOCAL_RANK", localSizeVar: "OMPI_COMM_WORLD_LOCAL_SIZE"})
	if id := r.text("PMIX_NAMESPACE", r.text("OMPI_MCA_ess_base_jobid", "")); id != "" {
		t.RunID = "mpirun-" + id
	}
	return t
}

func (r *reader) hydra() *Tasks {
	t := r.numbers(&Tasks{Launcher: "mpirun", rankVar: "PMI_RANK", sizeVar: "PMI_SIZE",
		localRankVar: "MPI_LOCALRANKID", localSizeVar: "MPI_LOCALNRANKS"})
	if t.LocalSize == t.Size {
		if pid := hydraProxy(r.text("PMI_FD", "")); pid > 0 {
			t.RunID = fmt.Sprintf("mpirun-%d", pid)
		}
	}
	return t
}

func (r *reader) numbers(t *Tasks) *Tasks {
	t.Size = r.number(t.sizeVar, 1, 1, maxWorld)
	t.Rank = r.number(t.rankVar, 0, 0, t.Size-1)
	t.LocalSize = r.number(t.localSizeVar, t.Size, 1, t.Size)
	t.LocalRank = r.number(t.localRankVar, t.Rank%t.LocalSize, 0, t.LocalSize-1)
	// The numbers of other hosts are unknown, and hosts may be uneven: on several, each process counts as one.
	t.Host, t.Hosts = t.Rank, t.Size
	return t
}

// slurmShell reports whether the step is not one of srun's: Slurm numbers those of a batch script, of an
// interactive shell and of external processes from the end of 32 bits.
func (r *reader) slurmShell() bool {
	id, err := strconv.ParseUint(r.text("SLURM_STEP_ID", ""), 10, 32)
	return err == nil && id >= 0xfffffff0
}

func (r *reader) slurm() *Tasks {
	t := &Tasks{Launcher: "srun", rankVar: "SLURM_PROCID", sizeVar: "SLURM_STEP_NUM_TASKS",
		localRankVar: "SLURM_LOCALID", localSizeVar: "SLURM_STEP_TASKS_PER_NODE"}
	if _, ok := r.lookup(t.sizeVar); !ok {
		t.sizeVar = "SLURM_NTASKS"
	}
	if _, ok := r.lookup(t.localSizeVar); !ok {
		t.localSizeVar = "SLURM_TASKS_PER_NODE"
	}
	t.Size = r.number(t.sizeVar, 1, 1, maxWorld)
	t.Rank = r.number(t.rankVar, 0, 0, t.Size-1)
	if r.err != nil || t.Size == 1 {
		return t
	}
	counts, err := expandCounts(r.text(t.localSizeVar, ""))
	if err != nil {
		r.err = fmt.Errorf("rendezvous: %s=%q: %w", t.localSizeVar, r.text(t.localSizeVar, ""), err)
		return t
	}
	t.Hosts = len(counts)
	t.Host = r.number("SLURM_NODEID", 0, 0, t.Hosts-1)
	t.LocalSize = counts[t.Host]
	t.LocalRank = r.number(t.localRankVar, 0, 0, t.LocalSize-1)
	sum := 0
	for _, n := range counts {
		sum += n
	}
	if sum != t.Size && r.err == nil {
		r.err = fmt.Errorf("rendezvous: %s=%s are %d tasks, but %s is %d", t.localSizeVar, r.text(t.localSizeVar, ""), sum, t.sizeVar, t.Size)
	}
	nodesVar := "SLURM_STEP_NODELIST"
	nodes, err := expandNodes(r.text(nodesVar, ""))
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("rendezvous: %s=%q: %w", nodesVar, r.text(nodesVar, ""), err)
	}
	if r.err != nil {
		return t
	}
	t.Addr = nodes[0]
	t.RunID = fmt.Sprintf("slurm-%s.%s", r.text("SLURM_JOB_ID", ""), r.text("SLURM_STEP_ID", ""))
	t.Restarts = r.number("SLURM_RESTART_COUNT", 0, 0, 1<<30)
	return t
}

// portOf returns the MASTER_PORT of a run: one of 500 ports between 15000 and 30968, below the ports that
// systems give to clients. Rank 0 may listen up to 21 higher (offsets).
func portOf(runID string) int {
	h := fnv.New32a()
	h.Write([]byte(runID))
	return 15000 + 32*int(h.Sum32()%500)
}

// JobEnd returns when Slurm ends the job of this process (SLURM_JOB_END_TIME); zero if unknown.
func JobEnd(lookup func(string) (string, bool)) time.Time {
	v, _ := lookup("SLURM_JOB_END_TIME")
	s, err := strconv.ParseInt(v, 10, 64)
	if err != nil || s <= 0 || s > 1<<40 {
		return time.Time{}
	}
	return time.Unix(s, 0)
}

// over returns lookup with the variables of torchrun's contract that t gives and the environment lacks.
// Variables that contradict t are errors, unless another launcher below t started more ranks.
func (t *Tasks) over(lookup func(string) (string, bool)) (func(string) (string, bool), bool, error) {
	r := &reader{lookup: lookup}
	_, ranked := lookup("RANK")
	size := r.number("WORLD_SIZE", t.Size, 1, maxWorld)
	if r.err == nil && ranked && size > t.Size {
		return lookup, false, nil
	}
	n := strconv.Itoa
	given := map[string]string{"RANK": n(t.Rank), "WORLD_SIZE": n(t.Size), "LOCAL_RANK": n(t.LocalRank), "LOCAL_WORLD_SIZE": n(t.LocalSize),
		"GROUP_RANK": n(t.Host), "GROUP_WORLD_SIZE": n(t.Hosts), "MASTER_PORT": n(t.Port), "TORCHELASTIC_RESTART_COUNT": n(t.Restarts)}
	if t.Addr != "" {
		given["MASTER_ADDR"] = t.Addr
	}
	if t.RunID != "" {
		given["TORCHELASTIC_RUN_ID"] = t.RunID
	}
	for _, c := range []struct {
		name, by string
		value    int
	}{
		{"WORLD_SIZE", t.sizeVar, t.Size}, {"RANK", t.rankVar, t.Rank},
		{"LOCAL_WORLD_SIZE", t.localSizeVar, t.LocalSize}, {"LOCAL_RANK", t.localRankVar, t.LocalRank},
	} {
		if v := r.number(c.name, c.value, 0, maxWorld); v != c.value && r.err == nil {
			by, _ := lookup(c.by)
			r.err = fault.Try(fmt.Errorf("rendezvous: %s=%d contradicts %s=%s of %s, by which it is %d", c.name, v, c.by, by, t.Launcher, c.value),
				"unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE before %s", t.Launcher)
		}
	}
	return func(name string) (string, bool) {
		if v, ok := lookup(name); ok {
			return v, ok
		}
		v, ok := given[name]
		return v, ok
	}, true, r.err
}
