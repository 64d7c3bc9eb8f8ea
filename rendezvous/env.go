package rendezvous

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"trireme/fault"
)

// Env describes this process within its job, as set by the launcher. The zero value is invalid: see
// Single.
type Env struct {
	Rank, WorldSize           int // in the job
	LocalRank, LocalWorldSize int // on this machine
	Ranks                     int // of this process: Rank is the first of them. 0 is 1
	GroupRank, GroupWorldSize int // this machine's index, and number of machines
	MasterAddr                string
	MasterPort                int
	RunID                     string // job id
	RestartCount, MaxRestarts int
	// FirstWorldSize is the world size at the job's first start, which determines the rows per step of a job
	// whose world changes. 0: the launcher did not say.
	FirstWorldSize int

	// Loopback reports that the launcher's machines are launchers on one machine, which reach each other on its
	// loopback interface (LoopbackVar).
	Loopback bool
	// Launched reports whether a launcher set the variables; otherwise this is a world of one rank.
	Launched bool
	// Launcher is srun or mpirun if their variables describe the world, else "" (torchrun's variables).
	Launcher string
	// Secret is the job's secret; nil if the launcher gave none. On one machine Join then uses a key of
	// this user.
	Secret []byte
	// Insecure lets ranks on several hosts join without a secret, and leaves their connections plain.
	Insecure bool
}

// ProcessRanksVar is the variable with Env.Ranks; absent: one rank per process.
const ProcessRanksVar = "TRIREME_PROCESS_RANKS"

// LoopbackVar is the variable with Env.Loopback.
const LoopbackVar = "TRIREME_LOOPBACK_HOSTS"

// FirstWorldVar is the variable with Env.FirstWorldSize.
const FirstWorldVar = "TRIREME_FIRST_WORLD_SIZE"

// Single returns the Env of a world of one rank.
func Single() Env {
	return Env{WorldSize: 1, LocalWorldSize: 1, Ranks: 1, GroupWorldSize: 1, MasterAddr: "127.0.0.1", RunID: "none"}
}

// Read reads the variables through lookup (os.LookupEnv), and the job's secret. Variables of torchrun come
// first; those of srun and mpirun (ReadTasks) give what they leave out, and must not contradict them.
// Without any of them it returns Single. Errors name the variable.
func Read(lookup func(string) (string, bool)) (Env, error) {
	e := Single()
	lookup, launcher, err := withTasks(lookup)
	if err != nil {
		return e, err
	}
	_, rank := lookup("RANK")
	_, size := lookup("WORLD_SIZE")
	switch {
	case !rank && !size:
		return e, nil
	case !size:
		return e, fault.Try(errors.New("rendezvous: RANK is set but WORLD_SIZE is not"), "both, as torchrun sets them, or neither")
	case !rank:
		// Some schedulers set WORLD_SIZE for a single process.
		if v, _ := lookup("WORLD_SIZE"); strings.TrimSpace(v) == "1" {
			return e, nil
		}
		return e, fault.Try(errors.New("rendezvous: WORLD_SIZE is set but RANK is not"), "both, as torchrun sets them, or neither")
	}
	r := reader{lookup: lookup}
	e.Launched, e.Launcher = true, launcher
	e.WorldSize = r.number("WORLD_SIZE", 1, 1, maxWorld)
	e.Rank = r.number("RANK", 0, 0, e.WorldSize-1)
	e.MasterAddr = r.text("MASTER_ADDR", "127.0.0.1")
	e.MasterPort = r.number("MASTER_PORT", 29500, 1, 65535)
	local := 1
	if IsLoopback(e.MasterAddr) {
		local = e.WorldSize // with a loopback address all ranks are on this machine
	}
	e.LocalWorldSize = r.number("LOCAL_WORLD_SIZE", local, 1, e.WorldSize)
	e.LocalRank = r.number("LOCAL_RANK", e.Rank%e.LocalWorldSize, 0, e.LocalWorldSize-1)
	e.Ranks = r.number(ProcessRanksVar, 1, 1, min(e.WorldSize-e.Rank, e.LocalWorldSize-e.LocalRank))
	e.GroupWorldSize = r.number("GROUP_WORLD_SIZE", (e.WorldSize+e.LocalWorldSize-1)/e.LocalWorldSize, 1, e.WorldSize)
	e.GroupRank = r.number("GROUP_RANK", min(e.Rank/e.LocalWorldSize, e.GroupWorldSize-1), 0, e.GroupWorldSize-1)
	e.RunID = r.text("TORCHELASTIC_RUN_ID", "none")
	e.RestartCount = r.number("TORCHELASTIC_RESTART_COUNT", 0, 0, 1<<30)
	e.MaxRestarts = r.number("TORCHELASTIC_MAX_RESTARTS", 0, 0, 1<<30)
	e.Loopback = r.number(LoopbackVar, 0, 0, 1) == 1
	e.FirstWorldSize = r.number(FirstWorldVar, 0, 1, maxWorld)
	if r.err != nil {
		return Env{}, r.err
	}
	if !e.OneMachine() && e.WorldSize > 1 {
		if _, ok := lookup("MASTER_ADDR"); !ok {
			return Env{}, fault.Try(fmt.Errorf("rendezvous: MASTER_ADDR is not set, and WORLD_SIZE %d is more than LOCAL_WORLD_SIZE %d", e.WorldSize, e.LocalWorldSize), "MASTER_ADDR=HOST, the host of rank 0")
		}
	}
	if e.Secret, err = ReadSecret(lookup); err != nil {
		return Env{}, err
	}
	if e.Insecure, err = ReadInsecure(lookup); err != nil {
		return Env{}, err
	}
	if e.Secret == nil && !e.Insecure && !e.OneMachine() && !IsLoopback(e.MasterAddr) {
		return Env{}, errors.New(noSecret(e))
	}
	return e, nil
}

// noSecret returns the error text for ranks on several machines without a secret. srun and mpirun pass
// variables to their processes, and only the user and root can read them there.
func noSecret(e Env) string {
	try := fmt.Sprintf("(umask 077; openssl rand -hex 32 > job.secret), copy that file to every machine, and set %s=job.secret for every rank, or its content as %s", SecretFileVar, SecretVar)
	switch e.Launcher {
	case "srun":
		try = fmt.Sprintf("export %s=$(openssl rand -hex 32) before srun", SecretVar)
	case "mpirun":
		try = fmt.Sprintf("export %s=$(openssl rand -hex 32) before mpirun; Open MPI also needs mpirun -x %s", SecretVar, SecretVar)
	}
	return fmt.Sprintf("rendezvous: ranks on several machines (WORLD_SIZE %d, LOCAL_WORLD_SIZE %d) need a job secret, or anyone who reaches %s could join. try: %s; or --insecure (%s=1) on a network that no stranger reaches",
		e.WorldSize, e.LocalWorldSize, e.MasterAddr, try, InsecureVar)
}

// withTasks returns lookup completed by the variables of srun or mpirun, and which of them it used. The
// workers of torchrun's launchers need none: their variables are complete.
func withTasks(lookup func(string) (string, bool)) (func(string) (string, bool), string, error) {
	complete := true
	for _, name := range []string{"RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"} {
		_, ok := lookup(name)
		complete = complete && ok
	}
	if complete {
		return lookup, "", nil
	}
	t, err := ReadTasks(lookup)
	if t == nil {
		return lookup, "", err
	}
	full, used, err := t.over(lookup)
	if !used {
		return lookup, "", err
	}
	return full, t.Launcher, err
}

// maxWorld limits WORLD_SIZE, against a mistyped number.
const maxWorld = 1 << 17

// OneMachine reports whether all ranks run on this machine.
func (e Env) OneMachine() bool { return e.LocalWorldSize == e.WorldSize }

// Split returns the Env of each rank of this process, with Ranks 1.
func (e Env) Split() []Env {
	all := make([]Env, max(1, e.Ranks))
	for i := range all {
		all[i] = e
		all[i].Rank, all[i].LocalRank, all[i].Ranks = e.Rank+i, e.LocalRank+i, 1
	}
	return all
}

// Multiply returns the Env of a process that runs n ranks in a job where every process does, if e counts
// processes as ranks.
func (e Env) Multiply(n int) (Env, error) {
	if e.WorldSize > maxWorld/n {
		return e, fmt.Errorf("rendezvous: %d processes of %d ranks are more than %d ranks", e.WorldSize, n, maxWorld)
	}
	e.Rank, e.WorldSize, e.FirstWorldSize = n*e.Rank, n*e.WorldSize, n*e.FirstWorldSize
	e.LocalRank, e.LocalWorldSize = n*e.LocalRank, n*e.LocalWorldSize
	e.Ranks = n
	return e, nil
}

// Processes returns the index of this process in the job and their number, if all have the same number of ranks.
func (e Env) Processes() (index, count int) {
	n := max(1, e.Ranks)
	return e.Rank / n, e.WorldSize / n
}

// Variables returns the variables as KEY=value, for a worker's environment. The secret is not among them.
func (e Env) Variables() []string {
	n := strconv.Itoa
	vars := []string{
		"RANK=" + n(e.Rank), "WORLD_SIZE=" + n(e.WorldSize),
		"LOCAL_RANK=" + n(e.LocalRank), "LOCAL_WORLD_SIZE=" + n(e.LocalWorldSize),
		ProcessRanksVar + "=" + n(max(1, e.Ranks)),
		"GROUP_RANK=" + n(e.GroupRank), "GROUP_WORLD_SIZE=" + n(e.GroupWorldSize),
		"ROLE_RANK=" + n(e.Rank), "ROLE_WORLD_SIZE=" + n(e.WorldSize), "ROLE_NAME=default",
		"MASTER_ADDR=" + e.MasterAddr, "MASTER_PORT=" + n(e.MasterPort),
		"TORCHELASTIC_RESTART_COUNT=" + n(e.RestartCount),
		"TORCHELASTIC_MAX_RESTARTS=" + n(e.MaxRestarts),
		"TORCHELASTIC_RUN_ID=" + e.RunID,
	}
	if e.Loopback {
		vars = append(vars, LoopbackVar+"=1")
	}
	if e.Insecure {
		vars = append(vars, InsecureVar+"=1")
	}
	if e.FirstWorldSize > 0 {
		vars = append(vars, FirstWorldVar+"="+n(e.FirstWorldSize))
	}
	return vars
}

// IsLoopback reports whether host is this machine's loopback interface. It does no DNS lookup.
func IsLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

type reader struct {
	lookup func(string) (string, bool)
	err    error
}

func (r *reader) text(name, absent string) string {
	v, ok := r.lookup(name)
	if v = strings.TrimSpace(v); !ok || v == "" {
		return absent
	}
	return v
}

func (r *reader) number(name string, absent, low, high int) int {
	v, ok := r.lookup(name)
	if !ok || r.err != nil {
		return absent
	}
	n, err := strconv.Atoi(strings.TrimSpace(v))
	switch {
	case err != nil:
		r.err = fault.Try(fmt.Errorf("rendezvous: %s=%q is not a number", name, v), "unset it, or a number, as torchrun sets it")
	case n < low || n > high:
		r.err = fmt.Errorf("rendezvous: %s=%d is not between %d and %d", name, n, low, high)
	default:
		return n
	}
	return absent
}
