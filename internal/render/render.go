package render

import (
	"fmt"
	"io/fs"
	"strings"

	"trireme/fault"
)

// Job is a job on hosts of another system. The zero values of fields are defaults.
type Job struct {
	// Name is the name of the job: lower-case letters, digits and dashes, up to 40. "": "trireme".
	Name string
	// Command is the command of each worker after the options of `trireme launch`. Required.
	Command []string
	// Options are options of `trireme launch` for every host, such as --max-restarts and --tee, without those
	// of nnodes, nproc-per-node, node-rank and the rendezvous.
	Options []string
	// Nnodes is the number of hosts, N or MIN:MAX. "": 1.
	Nnodes string
	// NprocPerNode is the number of workers of a host: a number, auto, cpu or gpu. "": auto.
	NprocPerNode string
	// Image is the container image of kubernetes and compose. "": "trireme", which `make image` builds.
	Image string
	// Port is that of the launchers' store on the first host. 0: 29400.
	Port int
	// Env are variables of the workers.
	Env map[string]string

	// CPUs, MemoryGiB and GPUs are the resources of a host. 0: none are requested.
	CPUs, MemoryGiB, GPUs int
	// ShmGiB is the size of /dev/shm of a host. 0: 1 GiB.
	ShmGiB int
	// Hours limits the time of the job. 0: none.
	Hours int

	// Region, InstanceType, AMI, KeyName, Subnet and SecurityGroup are of EC2.
	Region, InstanceType, AMI, KeyName, Subnet, SecurityGroup string
}

// File is a file to write. Mode is 0644, 0755 for scripts, 0600 for files with secrets.
type File struct {
	Name    string
	Content []byte
	Mode    fs.FileMode
}

// Kinds are the systems that Render supports, in alphabetical order.
var Kinds = []string{"aws", "compose", "kubernetes", "slurm"}

// Render returns the files of a job for a system, one of Kinds. The first one is the main file. Errors name
// flags of `trireme launch`.
func Render(kind string, job Job) ([]File, error) {
	return nil, fault.Try(fmt.Errorf("--render %s is unknown", kind), "--render %s", strings.Join(Kinds, ", "))
}
