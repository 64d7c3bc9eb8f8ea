package render

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"trireme/internal/clustertest"
)

// TestCompose lets docker compose, or docker-compose, read the files, and compares the commands that it reads.
func TestCompose(t *testing.T) {
	program := []string{"docker", "compose"}
	if exec.Command("docker", "compose", "version").Run() != nil {
		program = []string{clustertest.Program(t, "docker-compose", "Debian: docker-compose")}
	}
	for _, name := range []string{"compose", "compose-image"} {
		dir, files := rendered(t, name)
		if bytes.Contains(files[0].Content, []byte("privileged: true")) {
			t.Errorf("%s is privileged", name)
		}
		config := func(env ...string) ([]byte, error) {
			c := exec.Command(program[0], append(program[1:], "config")...)
			c.Dir, c.Env = dir, append(os.Environ(), env...)
			return c.Output()
		}
		if out, err := config("TRIREME_JOB_SECRET="); err == nil {
			t.Errorf("%s without a secret is accepted:\n%s", name, out)
		}
		out, err := config("TRIREME_JOB_SECRET=x")
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		var got struct {
			Services map[string]struct {
				Command  []string
				User     string
				Hostname string
				ReadOnly bool `yaml:"read_only"`
				Ports    []any
			}
		}
		if err := yaml.Unmarshal(out, &got); err != nil {
			t.Fatal(err)
		}
		d, err := describe(jobs[name].job)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Services) != d.Hosts {
			t.Errorf("%s has %d services, want %d", name, len(got.Services), d.Hosts)
		}
		for host, s := range got.Services {
			for i, a := range s.Command {
				s.Command[i] = strings.ReplaceAll(a, "$$", "$")
			}
			if want := d.Command; !slices.Equal(s.Command[len(s.Command)-len(want):], want) {
				t.Errorf("%s: the command of %s is %q, want %q", name, host, s.Command, want)
			}
			if s.Hostname != host || !s.ReadOnly || s.User != "65532:65532" || s.Ports != nil {
				t.Errorf("%s: %s is %+v", name, host, s)
			}
		}
	}
}

// TestKubernetes reads the manifests, and validates them by Kubernetes's schemas if kubernetes-validate is
// installed. The module internal/release decodes them into Kubernetes's own types.
func TestKubernetes(t *testing.T) {
	validate, err := exec.LookPath("kubernetes-validate")
	if err != nil {
		t.Log("SKIPPED: kubernetes-validate is not installed (pip install kubernetes-validate): the manifests are only read")
	}
	for name, j := range jobs {
		if j.kind != "kubernetes" {
			continue
		}
		dir, files := rendered(t, name)
		if validate != "" {
			if out, err := exec.Command(validate, "--strict", filepath.Join(dir, files[0].Name)).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", name, err, out)
			}
		}
		type container struct {
			Args            []string
			SecurityContext struct {
				ReadOnlyRootFilesystem bool `yaml:"readOnlyRootFilesystem"`
			} `yaml:"securityContext"`
		}
		found := false
		for _, document := range bytes.Split(files[0].Content, []byte("\n---\n")) {
			var got struct {
				Kind string
				Spec struct {
					Completions int
					Template    struct {
						Spec struct {
							Containers      []container
							SecurityContext struct {
								RunAsNonRoot bool `yaml:"runAsNonRoot"`
							} `yaml:"securityContext"`
						}
					}
				}
			}
			if err := yaml.Unmarshal(document, &got); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got.Kind != "Job" {
				continue
			}
			found = true
			pod := got.Spec.Template.Spec
			args := pod.Containers[0].Args
			for i, a := range args {
				args[i] = strings.ReplaceAll(a, "$$(", "$(")
			}
			if want := j.job.Command; !slices.Equal(args[len(args)-len(want):], want) {
				t.Errorf("%s: arguments %q, want %q at the end", name, args, want)
			}
			if !pod.SecurityContext.RunAsNonRoot || !pod.Containers[0].SecurityContext.ReadOnlyRootFilesystem {
				t.Errorf("%s: %+v", name, pod)
			}
		}
		if !found {
			t.Errorf("%s has no Job", name)
		}
	}
}
