package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"trireme/rendezvous"
)

// processRanksKey is the number of ranks per process. Another launcher's processes run several ranks only
// with an explicit number.
const processRanksKey = "device.ranks_per_process"

// ranksOf returns env for the ranks of this process. A process of another launcher is one rank, or
// device.ranks_per_process ranks if that is set: its RANK and WORLD_SIZE then count processes.
func (f *trainFlags) ranksOf(c *cobra.Command, env rendezvous.Env, j *job) (rendezvous.Env, error) {
	env, err := processRanks(env, j.cfg.Device.ProcessRanks)
	if err != nil {
		return env, err
	}
	j.perProc = max(1, env.Ranks)
	return env, checkRanks(c, env, int(f.nproc))
}

// processRanks returns env for n ranks in each process of another launcher. 0 is one.
func processRanks(env rendezvous.Env, n int) (rendezvous.Env, error) {
	if !env.Launched || env.Ranks > 1 || n < 2 || isOwnWorker() {
		return env, nil
	}
	env, err := env.Multiply(n)
	if err != nil {
		return env, &Exit{CodeUsage, err}
	}
	return env, nil
}

// foreignRanks returns the number of ranks of another launcher before the configuration is known.
func (f *trainFlags) foreignRanks(env rendezvous.Env) int {
	value := environment()["TRIREME_DEVICE_RANKS_PER_PROCESS"]
	for _, s := range f.sets {
		if key, v, _ := strings.Cut(s, "="); strings.TrimSpace(key) == processRanksKey {
			value = v
		}
	}
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil { // conf reports it
		return env.WorldSize
	}
	env, err = processRanks(env, n)
	if err != nil {
		return 0
	}
	return env.WorldSize
}

// setProcesses sets the ranks per process of a job with nproc ranks, which this command starts unless env is
// Launched.
func (j *job) setProcesses(env rendezvous.Env, nproc int) (err error) {
	if !env.Launched {
		j.perProc, err = ranksPerProcess(nproc, j.cfg.Device.RanksPerProcess(nproc), "--set "+processRanksKey+"=")
	}
	return err
}

// ranksPerProcess refuses a number of ranks that processes of n ranks cannot share. flag sets n.
func ranksPerProcess(nproc, n int, flag string) (int, error) {
	if nproc%n == 0 {
		return n, nil
	}
	fits := n
	for nproc%fits != 0 {
		fits--
	}
	return n, usage(fmt.Sprintf("--nproc is %d, but each process runs %d ranks", nproc, n),
		fmt.Sprintf("%s%d, or --nproc %d", flag, fits, (nproc/n+1)*n))
}
