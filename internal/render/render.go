package render

import (
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"trireme/fault"
)

// Job is a job on hosts of another system. The zero values of fields are defaults.
type Job struct {
	// Name is the name of the job: lower-case letters, digits and dashes, up to 40. "": "trireme".
	Name string
	// Command is the program of the workers and its arguments. Required.
	Command []string
	// Options are options of `trireme launch` for every host, such as --max_restarts and --tee, without those
	// of nnodes, nproc_per_node, node_rank and the rendezvous.
	Options []string
	// Nnodes is the number of hosts, N or MIN:MAX. "": 1.
	Nnodes string
	// NprocPerNode is the number of workers of a host: a number, auto, cpu or gpu. "": 1.
	NprocPerNode string
	// Image is the container image of kubernetes and compose, with trireme in its PATH. Required by kubernetes;
	// "" with compose adds a Dockerfile.
	Image string
	// Port is that of the launchers' store on the first host. 0: 29400, with slurm a port of the job's number.
	Port int
	// Env are variables of the workers. Their values are in the files: none of them may be a secret.
	Env map[string]string

	// CPUs, MemoryGiB and GPUs are the resources of a host. 0: slurm takes the whole host, and the others
	// request none.
	CPUs, MemoryGiB, GPUs int
	// ShmGiB is the size of /dev/shm in a container. 0: 1.
	ShmGiB int
	// WorkGiB is the size of the volume of kubernetes for /work. 0: 10.
	WorkGiB int
	// Hours limits the time of the job. 0: none.
	Hours int
	// StopSeconds is the time from the stop signal to the kill, with kubernetes and compose: for the steps in progress
	// and a save. 0: 630, more than parallel.stop_seconds, so that ranks that take longer are named.
	StopSeconds int

	EC2
}

// EC2 has the settings of aws. All but InstanceType are required.
type EC2 struct {
	Region, AMI, KeyName, Subnet, SecurityGroup string
	// InstanceProfile is the name of a profile whose role may read the parameter /trireme/NAME/secret.
	InstanceProfile string
	// InstanceType is the type of instances. "": p4d.24xlarge.
	InstanceType string
}

// File is a file to write. Mode is 0644, or 0755 for scripts.
type File struct {
	Name    string
	Content []byte
	Mode    fs.FileMode
}

var kinds = map[string]func(*description) ([]File, error){
	"aws": renderAWS, "compose": compose, "kubernetes": kubernetes, "slurm": slurm,
}

// Kinds returns the systems that Render supports, in alphabetical order.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// Render returns the files of a job for a system, one of Kinds. The first one is the main file. Errors name
// flags of `trireme launch`.
func Render(kind string, job Job) ([]File, error) {
	f, ok := kinds[kind]
	if !ok {
		return nil, fault.Try(fmt.Errorf("--render %s is unknown", kind), "%s", "--render "+strings.Join(Kinds(), ", "))
	}
	d, err := describe(job)
	if err != nil {
		return nil, err
	}
	return f(d)
}

// description is a Job with defaults, for templates.
type description struct {
	Job
	Least, Hosts int  // MIN and MAX
	Elastic      bool // MIN < MAX
	ID           string
}

var (
	nameForm     = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`)
	variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func describe(job Job) (*description, error) {
	d := &description{Job: job}
	set(&d.Name, "trireme")
	set(&d.Nnodes, "1")
	set(&d.NprocPerNode, "1")
	set(&d.InstanceType, "p4d.24xlarge")
	set(&d.ShmGiB, 1)
	set(&d.WorkGiB, 10)
	set(&d.StopSeconds, 630)
	d.ID = d.Name
	low, high, ranged := strings.Cut(d.Nnodes, ":")
	if !ranged {
		high = low
	}
	var err1, err2 error
	d.Least, err1 = strconv.Atoi(low)
	d.Hosts, err2 = strconv.Atoi(high)
	d.Elastic = d.Least < d.Hosts
	switch {
	case err1 != nil || err2 != nil || d.Least < 1 || d.Hosts < d.Least || d.Hosts > 4096:
		return nil, fault.Try(fmt.Errorf("--nnodes is %q, not a number N or a range MIN:MAX from 1 to 4096", d.Nnodes), "--nnodes 2")
	case !nameForm.MatchString(d.Name):
		return nil, fault.Try(fmt.Errorf("--render_name is %q: it must have 1 to 40 lower-case letters, digits and dashes, the first one a letter", d.Name), "--render_name my-job")
	case len(d.Command) == 0:
		return nil, fault.Try(fmt.Errorf("--render needs the program of the workers"), "--render ... -- trireme train --config run.yaml")
	case d.Port < 0 || d.Port > 65535:
		return nil, fmt.Errorf("the port of --rdzv_endpoint is %d, not 1 to 65535", d.Port)
	case min(d.CPUs, d.MemoryGiB, d.GPUs, d.ShmGiB, d.WorkGiB, d.Hours, d.StopSeconds) < 0:
		return nil, fmt.Errorf("a number of resources is negative")
	}
	for name, value := range job.Env {
		if !variableForm.MatchString(name) {
			return nil, fmt.Errorf("--render_env %q is not the name of a variable", name)
		}
		if strings.HasPrefix(name, "TRIREME_JOB_SECRET") {
			return nil, fault.Try(fmt.Errorf("--render_env %s: the files contain no secret", name), "%s", "leave it out: the files say where the secret comes from")
		}
		if strings.ContainsAny(value, "\n\r\x00") {
			return nil, fmt.Errorf("--render_env %s has a line break or a zero byte", name)
		}
	}
	for _, a := range slices.Concat(d.Command, d.Options) {
		if strings.ContainsAny(a, "\n\r\x00") {
			return nil, fmt.Errorf("--render: the argument %q has a line break or a zero byte", a)
		}
	}
	return d, nil
}

func set[T comparable](v *T, absent T) {
	var zero T
	if *v == zero {
		*v = absent
	}
}

// inContainer adds the home directory of containers.
func (d *description) inContainer() {
	d.Env = maps.Clone(d.Env)
	if d.Env == nil {
		d.Env = map[string]string{}
	}
	if _, ok := d.Env["HOME"]; !ok {
		d.Env["HOME"] = "/work"
	}
}

// port returns the port of the launchers' store.
func (d *description) port() int {
	if d.Job.Port == 0 {
		return 29400
	}
	return d.Job.Port
}

// launch returns the arguments of trireme on every host, whose store is at an endpoint.
func (d *description) launch(endpoint string) []string {
	args := []string{"launch", "--nnodes", d.Nnodes, "--nproc_per_node", d.NprocPerNode}
	if d.Hosts > 1 {
		args = append(args, "--rdzv_endpoint", endpoint, "--rdzv_id", d.ID)
	}
	args = append(append(args, d.Options...), "--")
	return append(args, d.Command...)
}
