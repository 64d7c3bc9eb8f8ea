package render

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// jobs are rendered to testdata/NAME.
var jobs = map[string]struct {
	kind string
	job  Job
}{
	"kubernetes": {"kubernetes", Job{
		Name: "llama", Image: "registry.example.org/trireme:1.0", Nnodes: "4", NprocPerNode: "8", CPUs: 64, MemoryGiB: 512, GPUs: 8, ShmGiB: 16, WorkGiB: 500, Hours: 72,
		Command: []string{"trireme", "train", "--config", "run.yaml"}, Options: []string{"--max_restarts", "3"}, Env: map[string]string{"OMP_NUM_THREADS": "8", "ODD": `a "b" $(c) 'd': #e`},
	}},
	"kubernetes-elastic": {"kubernetes", Job{Image: "trireme:1.0", Nnodes: "1:3", Command: []string{"./odd program", "$(RANK)", "it's", "{}"}}},
	"kubernetes-one":     {"kubernetes", Job{Image: "trireme:1.0", Command: []string{"trireme", "train", "--config", "run.yaml"}}},
	"compose":            {"compose", Job{Nnodes: "2", NprocPerNode: "2", Command: []string{"trireme", "train", "--config", "run.yaml"}, CPUs: 2, MemoryGiB: 4}},
	"compose-image": {"compose", Job{
		Name: "llama", Image: "registry.example.org/trireme:1.0", Nnodes: "1:2", GPUs: 4, Port: 29999,
		Command: []string{"python3", "train.py", "--note", `$HOME "x" 'y'`}, Env: map[string]string{"NOTE": `${x} "y"`},
	}},
	"slurm": {"slurm", Job{
		Name: "llama", Nnodes: "4", NprocPerNode: "8", CPUs: 64, GPUs: 8, MemoryGiB: 500, Hours: 72, Options: []string{"--max_restarts", "3"},
		Command: []string{"trireme", "train", "--config", "run one.yaml"}, Env: map[string]string{"NOTE": `$(date) 'x'`},
	}},
	"slurm-elastic": {"slurm", Job{Nnodes: "2:4", Port: 29400, Command: []string{"trireme", "train", "--config", "run.yaml"}}},
	"slurm-one":     {"slurm", Job{Command: []string{"echo", "ENDPOINT", "ID"}}},
	"aws": {"aws", Job{
		Name: "llama", Nnodes: "3", NprocPerNode: "8", Command: []string{"trireme", "train", "--config", "run one.yaml"}, Env: map[string]string{"NOTE": "it's $x"},
		EC2: testEC2,
	}},
	"aws-one": {"aws", Job{Command: []string{"trireme", "train", "--config", "run.yaml"}, EC2: testEC2}},
}

var testEC2 = EC2{Region: "eu-central-1", AMI: "ami-0123456789abcdef0", KeyName: "key", Subnet: "subnet-0123456789abcdef0", SecurityGroup: "sg-0123456789abcdef0", InstanceProfile: "trireme"}

// rendered writes the files of a job to a directory and returns it.
func rendered(t *testing.T, name string) (dir string, files []File) {
	t.Helper()
	files, err := Render(jobs[name].kind, jobs[name].job)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Content, f.Mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir, files
}

// TestGolden compares all files with testdata. -update rewrites them.
func TestGolden(t *testing.T) {
	if *update {
		if err := os.RemoveAll("testdata"); err != nil {
			t.Fatal(err)
		}
	}
	expected := map[string]bool{}
	for name := range jobs {
		_, files := rendered(t, name)
		for _, f := range files {
			at := filepath.Join("testdata", name, f.Name)
			expected[at] = true
			if *update {
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, f.Content, f.Mode); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(at)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, f.Content) {
				t.Errorf("%s is stale. try: go test ./internal/render -run Golden -update\n%s", at, f.Content)
			}
		}
	}
	filepath.WalkDir("testdata", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && !expected[path] {
			t.Errorf("%s belongs to no job", path)
		}
		return err
	})
}

func TestErrors(t *testing.T) {
	command := []string{"true"}
	for want, c := range map[string]struct {
		kind string
		job  Job
	}{
		"aws, compose, kubernetes, slurm": {"nomad", Job{Command: command}},
		"--nnodes":                        {"slurm", Job{Command: command, Nnodes: "3:2"}},
		"--render_name":                   {"slurm", Job{Command: command, Name: "a; rm -rf"}},
		"needs the program":               {"slurm", Job{}},
		"not 1 to 65535":                  {"slurm", Job{Command: command, Port: 70000}},
		"not the name of a variable":      {"slurm", Job{Command: command, Env: map[string]string{"A B": ""}}},
		"contain no secret":               {"slurm", Job{Command: command, Env: map[string]string{"TRIREME_JOB_SECRET": "x"}}},
		"line break":                      {"slurm", Job{Command: []string{"a\nb"}}},
		"needs an image":                  {"kubernetes", Job{Command: command}},
		"--aws_subnet":                    {"aws", Job{Command: command, EC2: EC2{Region: "x"}}},
		"no name of AWS":                  {"aws", Job{Command: command, EC2: EC2{Region: "x;y"}}},
		"negative":                        {"compose", Job{Command: command, CPUs: -1}},
	} {
		if _, err := Render(c.kind, c.job); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s %+v: %v, want %q", c.kind, c.job, err, want)
		}
	}
}
