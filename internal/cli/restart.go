package cli

import (
	"trireme/internal/rundir"
	"trireme/rendezvous"
)

// restart is a job's start as its launcher counts them. Later starts of a job continue its run.
type restart struct {
	count int    // 0: the first
	job   string // id; empty: unknown
}

// setRestart makes a restarted job continue its run, and a job whose world may change keep the rows per step
// of its first world.
func (j *job) setRestart(env rendezvous.Env) (err error) {
	j.restart.count = env.RestartCount
	if env.RunID != rendezvous.Single().RunID {
		j.restart.job = env.RunID
	}
	if env.FirstWorldSize == 0 {
		return nil
	}
	if j.cfg.Training, err = j.cfg.Training.WithRanks(env.FirstWorldSize); err != nil {
		return &Exit{CodeUsage, err}
	}
	return j.print()
}

// continues reports whether the job continues the run in its directory, if there is one.
func (j *job) continues() bool { return j.cfg.Resume == "auto" || j.restart.count > 0 }

// find returns dir if it has the run of this job, else none: the first start ended before it had a directory.
func (r restart) find(dir string) string {
	if c, err := rundir.ReadCard(dir); dir != "" && err == nil && r.job != "" && c.Job == r.job {
		return dir
	}
	return ""
}
