package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trireme/internal/render"
)

// renderFlags are the flags of launch that write the files of another system instead of starting workers.
type renderFlags struct {
	kind, output string
	apply        bool
	env          []string
	job          render.Job
}

// register adds the flags.
func (r *renderFlags) register(p *pflag.FlagSet) {
	p.StringVar(&r.kind, "render", "", "start nothing: print the files of the job for `SYSTEM` ("+strings.Join(render.Kinds(), ", ")+")")
	p.StringVar(&r.output, "output", "", "with --render: write the files to `DIR`")
	p.BoolVar(&r.apply, "apply", false, "with --render aws: start the instances (a program built with -tags aws)")
	j := &r.job
	p.StringVar(&j.Name, "render_name", "", "with --render: `NAME` of the job (default trireme)")
	p.StringVar(&j.Image, "render_image", "", "with --render kubernetes or compose: container `IMAGE` with trireme")
	p.StringArrayVar(&r.env, "render_env", nil, "with --render: a variable of the workers, `KEY=VALUE`; repeatable")
	p.IntVar(&j.CPUs, "render_cpus", 0, "with --render: processors `N` of a machine")
	p.IntVar(&j.MemoryGiB, "render_memory_gib", 0, "with --render: memory of a machine in `GIB`")
	p.IntVar(&j.GPUs, "render_gpus", 0, "with --render: GPUs `N` of a machine")
	p.IntVar(&j.ShmGiB, "render_shm_gib", 0, "with --render kubernetes or compose: /dev/shm in `GIB` (default 1)")
	p.IntVar(&j.WorkGiB, "render_work_gib", 0, "with --render kubernetes: volume of /work in `GIB` (default 10)")
	p.IntVar(&j.Hours, "render_hours", 0, "with --render kubernetes or slurm: time limit in `HOURS`")
	p.IntVar(&j.StopSeconds, "render_stop_seconds", 0, "with --render kubernetes or compose: `SECONDS` from the stop signal to the kill (default 630)")
	p.StringVar(&j.Region, "aws_region", "", "with --render aws: `REGION`")
	p.StringVar(&j.AMI, "aws_ami", "", "with --render aws: machine image `ID` with the AWS CLI and trireme")
	p.StringVar(&j.InstanceType, "aws_instance_type", "", "with --render aws: `TYPE` of instances (default p4d.24xlarge)")
	p.StringVar(&j.KeyName, "aws_key_name", "", "with --render aws: `NAME` of the key pair")
	p.StringVar(&j.Subnet, "aws_subnet", "", "with --render aws: subnet `ID`")
	p.StringVar(&j.SecurityGroup, "aws_security_group", "", "with --render aws: security group `ID`, whose members reach each other")
	p.StringVar(&j.InstanceProfile, "aws_instance_profile", "", "with --render aws: profile `NAME`, whose role reads the job's secret")
}

// ofRender reports whether a flag describes the job to --render.
func ofRender(name string) bool {
	return name == "render" || name == "output" || name == "apply" || strings.HasPrefix(name, "render_") || strings.HasPrefix(name, "aws_")
}

// renderedOptions are passed to the launchers of the rendered job; renderedJob are part of its description.
var (
	renderedOptions = []string{"max_restarts", "shutdown_timeout", "module", "no_python", "run_path", "role", "log_dir", "redirects", "tee", "local_ranks_filter", "rdzv_conf", "insecure", "preflight"}
	renderedJob     = []string{"nnodes", "nproc_per_node", "rdzv_id", "rdzv_endpoint"}
)

// render writes the files of the job.
func (f *launchFlags) render(c *cobra.Command, args []string) error {
	job := f.rendering.job
	job.Command, job.Nnodes, job.NprocPerNode = args, f.nnodes, f.nproc
	var refused error
	f.flags.Visit(func(flag *pflag.Flag) {
		switch {
		case ofRender(flag.Name) || slices.Contains(renderedJob, flag.Name):
		case slices.Contains(renderedOptions, flag.Name):
			job.Options = append(job.Options, "--"+flag.Name)
			if flag.Value.Type() == "bool" {
				job.Options[len(job.Options)-1] += "=" + flag.Value.String()
			} else {
				job.Options = append(job.Options, flag.Value.String())
			}
		default:
			refused = usage(fmt.Sprintf("--%s has no meaning with --render", flag.Name), "without it: the files have their own addresses and secret")
		}
	})
	if refused != nil {
		return refused
	}
	if f.rdzvID != "none" && job.Name == "" {
		job.Name = f.rdzvID
	}
	if f.rdzvEndpoint != "" {
		_, port, err := net.SplitHostPort(f.rdzvEndpoint)
		if err == nil {
			job.Port, err = strconv.Atoi(port)
		}
		if err != nil {
			return usage(fmt.Sprintf("--rdzv_endpoint is %q: with --render its port is used", f.rdzvEndpoint), "--rdzv_endpoint :29400")
		}
	}
	for _, e := range f.rendering.env {
		key, value, ok := strings.Cut(e, "=")
		if !ok {
			return usage(fmt.Sprintf("--render_env %q is not KEY=VALUE", e), "--render_env OMP_NUM_THREADS=4")
		}
		if job.Env == nil {
			job.Env = map[string]string{}
		}
		job.Env[key] = value
	}
	if f.rendering.apply {
		if f.rendering.kind != "aws" {
			return usage("--apply is for --render aws", "the command in the first lines of the file")
		}
		return render.Apply(c.Context(), job, c.OutOrStdout())
	}
	files, err := render.Render(f.rendering.kind, job)
	if err != nil {
		return &Exit{CodeUsage, err}
	}
	if f.rendering.output != "" {
		return writeRendered(c, f.rendering.output, files)
	}
	for _, file := range files {
		if len(files) > 1 {
			fmt.Fprintf(c.OutOrStdout(), "# ---- %s\n", file.Name)
		}
		if _, err := c.OutOrStdout().Write(file.Content); err != nil {
			return err
		}
	}
	return nil
}

// writeRendered writes files to a directory, and replaces none that has another content.
func writeRendered(c *cobra.Command, dir string, files []render.File) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		path := filepath.Join(dir, file.Name)
		switch old, err := os.ReadFile(path); {
		case err == nil && !bytes.Equal(old, file.Content):
			return usage(path+" exists with another content", "--output of another directory, or remove the file")
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	for _, file := range files {
		path := filepath.Join(dir, file.Name)
		if err := os.WriteFile(path, file.Content, file.Mode); err != nil {
			return err
		}
		fmt.Fprintf(c.ErrOrStderr(), "wrote %s\n", path)
	}
	return nil
}
