package cli

import (
	"fmt"
	"os"
	"strconv"

	"trireme/rendezvous"
)

// readTasks takes the numbers of hosts from srun, or from mpirun, if it started one launch on each host. Flags
// come first.
func (f *launchFlags) readTasks(s *launchSettings) error {
	given := func(names ...string) bool {
		for _, name := range names {
			if f.flags.Lookup(name).Changed {
				return true
			}
		}
		return false
	}
	if f.standalone || given("hostfile", "deepspeed_hostfile") {
		return nil
	}
	t, err := rendezvous.ReadTasks(os.LookupEnv)
	if err != nil {
		return &Exit{CodeUsage, err}
	}
	if t == nil {
		return nil
	}
	if t.LocalSize > 1 {
		return usage(fmt.Sprintf("%s started %d tasks on this host, and each would launch workers", t.Launcher, t.LocalSize),
			"one task per host (srun --ntasks-per-node=1, mpirun -npernode 1 or -ppn 1), or "+t.Launcher+" trireme train, whose tasks are the ranks")
	}
	set := map[string]string{}
	if !given("nnodes", "num_nodes", "num_machines", "min_elastic_nodes", "max_elastic_nodes") {
		set["nnodes"] = strconv.Itoa(t.Size)
	}
	if !given("rdzv_id") && t.RunID != "" {
		set["rdzv_id"] = t.RunID
	}
	if f.rdzvEndpoint == "" {
		if !given("node_rank", "machine_rank") {
			set["node_rank"] = strconv.Itoa(t.Rank)
		}
		if !given("master_addr", "main_process_ip") {
			if t.Addr == "" {
				return usage("mpirun does not say which host has node rank 0", "--master_addr HOST, its first host")
			}
			set["master_addr"] = t.Addr
		}
		if !given("master_port", "main_process_port") {
			set["master_port"] = strconv.Itoa(t.Port)
		}
	}
	for name, v := range set {
		if err := f.flags.Set(name, v); err != nil {
			return err
		}
	}
	s.note("%s started this launch on host %d of %d", t.Launcher, t.Rank, t.Size)
	return nil
}
