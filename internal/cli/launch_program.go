package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"trireme/device"
	"trireme/launch"
)

// program is the command that workers run.
type program struct {
	command []string
	trireme []string // arguments of this program, from the subcommand on; nil: another program
}

// program returns the workers' command for the arguments after the flags. As with torchrun, Python runs modules
// and .py files; it does not run other files.
func (f *launchFlags) program(args []string) (program, error) {
	switch {
	case len(args) == 0 || args[0] == "":
		return program{}, usage("no program to launch", "trireme launch --nproc_per_node 2 train.py, or -- ./program")
	case f.module && f.noPython:
		return program{}, usage("--module and --no_python contradict each other", "one of them")
	}
	name := args[0]
	if other := filepath.Base(name); other == "torchrun" || other == "deepspeed" || other == "accelerate" && len(args) > 1 && args[1] == "launch" {
		return program{}, usage(fmt.Sprintf("%s is a launcher, and trireme launch replaces it", other), "its flags after trireme launch: trireme launch --nproc_per_node 2 train.py")
	}
	if !f.noPython && (f.module || f.runPath || strings.HasSuffix(name, ".py")) {
		return f.python(args)
	}
	path, err := exec.LookPath(name)
	if err == nil {
		return program{command: append([]string{path}, args[1:]...), trireme: asTrireme(path, args[1:])}, nil
	}
	st, missing := os.Stat(name)
	switch {
	case missing == nil && st.IsDir():
		return program{}, usage(fmt.Sprintf("%s is a directory, not a program", name), "a program in it")
	case missing == nil:
		return program{}, usage(fmt.Sprintf("%s is not executable", name), "chmod +x "+name+", or python3 -u "+name)
	case errors.Is(err, exec.ErrDot):
		return program{}, usage(fmt.Sprintf("%s is in the current directory, not in PATH", name), "./"+name)
	}
	return program{}, usage(fmt.Sprintf("program %q not found", name), "a path, such as ./"+filepath.Base(name)+", or a program in PATH")
}

func (f *launchFlags) python(args []string) (program, error) {
	name := args[0]
	if !f.module {
		switch st, err := os.Stat(name); {
		case err != nil:
			return program{}, usage(fmt.Sprintf("script %s does not exist", name), "its path, or -m for a module")
		case st.IsDir():
			return program{}, usage(fmt.Sprintf("%s is a directory, not a script", name), "a .py file in it")
		}
	}
	interpreters := []string{"python3", "python"}
	if v := os.Getenv("PYTHON_EXEC"); v != "" {
		interpreters = []string{v}
	}
	for _, i := range interpreters {
		path, err := exec.LookPath(i)
		if err != nil {
			continue
		}
		command := []string{path, "-u"}
		if f.module {
			command = append(command, "-m")
		}
		return program{command: append(command, args...)}, nil
	}
	return program{}, usage(fmt.Sprintf("%s runs %s, but it is not found", interpreters[0], name), "PYTHON_EXEC=/path/to/python3, or -- with a program")
}

// asTrireme returns the arguments of this program; nil if path is another one.
func asTrireme(path string, args []string) []string {
	exe, err := os.Executable()
	if err != nil {
		return nil
	}
	a, err1 := os.Stat(path)
	b, err2 := os.Stat(exe)
	same := err1 == nil && err2 == nil && os.SameFile(a, b)
	if !same && filepath.Base(path) != "trireme" {
		return nil
	}
	return append([]string{}, args...)
}

// trains reports whether the program is trireme train.
func (p program) trains() bool { return len(p.trireme) > 0 && p.trireme[0] == "train" }

// training returns the flags of trireme train, as far as they are valid: the workers report errors.
func (p program) training() *trainFlags {
	f := &trainFlags{}
	c := newTrainCommand(f)
	addAliases(c)
	c.ParseFlags(bareResume(p.trireme[1:]))
	return f
}

// environment returns the base environment of the workers of any program, as torchrun sets it, and notes.
func (p program) environment(nproc int) (env, notes []string) {
	env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, workerVar+"=") })
	has := func(name string) bool { _, ok := os.LookupEnv(name); return ok }
	if !has("TORCH_NCCL_ASYNC_ERROR_HANDLING") {
		env = append(env, "TORCH_NCCL_ASYNC_ERROR_HANDLING=1")
	}
	if p.trireme == nil && nproc > 1 && !has("OMP_NUM_THREADS") {
		env = append(env, "OMP_NUM_THREADS=1")
		notes = append(notes, "OMP_NUM_THREADS=1 for each worker, as torchrun sets it. set it to use more threads")
	}
	return env, notes
}

// workersHere returns the number of workers of this machine for --nproc_per_node.
func workersHere(s given) (int, error) {
	n, err := parseNproc(s)
	if err != nil || n > 0 {
		return n, err
	}
	gpus, err := device.VisibleGPUs(os.LookupEnv)
	switch {
	case err != nil && s.value == "gpu":
		return 0, &Exit{CodeUsage, fmt.Errorf("%s is gpu: %w", s.from, err)}
	case gpus == 0 && s.value == "gpu":
		return 0, usage(s.from+" is gpu, but no NVIDIA GPU is visible", "trireme doctor devices, or "+s.from+" cpu")
	case s.value == "cpu" || gpus == 0:
		return runtime.NumCPU(), nil
	}
	return gpus, nil
}

// parseNproc parses a number of workers; 0 for auto, gpu and cpu.
func parseNproc(s given) (int, error) {
	if slices.Contains([]string{"auto", "gpu", "cpu"}, s.value) {
		return 0, nil
	}
	n, err := strconv.Atoi(s.value)
	if err != nil || n < 1 || n > maxNproc {
		return 0, usage(fmt.Sprintf("%s is %q, not auto, gpu, cpu or a number from 1 to %d", s.from, s.value, maxNproc), s.from+" auto")
	}
	return n, nil
}

// output returns where the workers' output goes. A directory is made when the workers start (makeLogs).
func (f *launchFlags) output() (o launch.Output, err error) {
	o = launch.Output{All: true, Prefix: os.Getenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE")}
	for _, s := range []struct {
		name, text string
		to         *launch.Streams
	}{{"redirects", f.redirects, &o.Redirects}, {"tee", f.tee, &o.Tee}} {
		if *s.to, err = launch.ParseStreams(s.text); err != nil {
			return o, usage(fmt.Sprintf("--%s: %v", s.name, err), "--"+s.name+" 3")
		}
	}
	o.Ranks, err = parseLocalRanks(f.localRanks)
	return o, err
}
