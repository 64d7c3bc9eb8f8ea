// Package cluster is the launcher's part of a job: it agrees with the launchers of other hosts on who takes
// part, runs the workers of this host (package launch), and agrees on how the job ended. A job on one host is
// the same with one launcher.
//
//	code, err := cluster.Run(ctx, cluster.Config{
//		Workers:  launch.Config{Nproc: 8, Command: []string{"python", "train.py"}},
//		MinHosts: 2, MaxHosts: 4, Endpoints: []string{"n0:29400"}, Secret: secret,
//	})
//
// A host is a machine, a launcher its process here, a generation one start of all workers on all hosts, a rank
// a worker's number in a generation.
package cluster
