package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"trireme/internal/numa"
)

// nodesOf makes a sysfs with one node for each of these processors, until the test ends.
func nodesOf(t *testing.T, cpus ...int) {
	t.Helper()
	sys := t.TempDir()
	for i, cpu := range cpus {
		dir := filepath.Join(sys, "devices/system/node", fmt.Sprint("node", i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cpulist"), fmt.Appendln(nil, cpu), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	was := sysfs
	sysfs = sys
	t.Cleanup(func() { sysfs = was })
}

// launchHere runs trireme launch in this process, and returns what it and its workers write.
func launchHere(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	f := &launchFlags{}
	c := newLaunchCommand(f)
	addAliases(c)
	var out, errs bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&errs)
	c.SetArgs(args)
	err = c.ExecuteContext(context.WithValue(t.Context(), stopKey{}, newStop(t)))
	return out.String(), errs.String(), err
}

func TestNUMABinding(t *testing.T) {
	allowed, err := numa.Allowed()
	if err != nil || len(allowed) != 2 {
		t.Skipf("needs a system that binds threads, with two processors: %v, %v", allowed, err)
	}
	nodesOf(t, allowed...)
	if n := autoRanks(); n != 2 {
		t.Errorf("--nproc auto is %d on two nodes", n)
	}
	show := []string{"--nproc_per_node", "2", "--", "sed", "-n", "s/^Cpus_allowed_list://p", "/proc/self/status"}
	bound, unbound := []string{fmt.Sprint(allowed[0]), fmt.Sprint(allowed[1])}, []string{allowed.String(), allowed.String()}
	for _, c := range []struct {
		flags string
		want  []string
	}{
		{"", unbound}, // as torchrun
		{"--numa_binding none", unbound},
		{"--numa_binding auto", bound},
		{"--numa-binding=node", bound},
		{"--numa_binding exclusive", bound},
		{"--bind_cores_to_rank", bound},
		{"--enable_cpu_affinity", bound},
	} {
		out, errs, err := launchHere(t, slices.Concat(strings.Fields(c.flags), show)...)
		got := strings.Fields(out)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: workers have processors %q, want %q: %v\n%s", c.flags, got, c.want, err, errs)
		}
		const line = "numa: local ranks 0 on node 0, 1 on node 1, 1 processor each\n"
		if strings.Contains(errs, line) != slices.Equal(c.want, bound) {
			t.Errorf("%s: %q", c.flags, errs)
		}
	}
	sysfs = t.TempDir() // the nodes are unknown
	if n := autoRanks(); n != 1 {
		t.Errorf("--nproc auto is %d without nodes", n)
	}
	if out, _, err := launchHere(t, slices.Concat([]string{"--numa_binding", "auto"}, show)...); err != nil || !slices.Equal(strings.Fields(out), unbound) {
		t.Errorf("auto without nodes: %q, %v", out, err)
	}
	for flags, want := range map[string]string{
		"--numa_binding node":         "--numa_binding is node: .*no such file or directory",
		"--numa_binding socket":       "--numa_binding socket is not supported",
		"--numa_binding core-complex": "--numa_binding core-complex is not supported",
		"--numa_binding nod":          "--numa_binding: .*nod",
	} {
		if _, _, err := launchHere(t, slices.Concat(strings.Fields(flags), show)...); codeOf(err) != CodeUsage || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%s: %v", flags, err)
		}
	}
}

// trireme launch reads device.numa of the trireme train that it starts.
func TestTrainBinding(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "run.yaml")
	if err := os.WriteFile(config, []byte("device:\n  numa: none\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, variable string
		want           string
	}{
		{"", "", "auto"},
		{"--resume --config " + config, "", "none"},
		{"--config=" + config + " --set device.numa=node", "", "node"},
		{"-c " + config, "node", "node"},
		{"--set device.numa=else", "", "auto"},
		{"--set device.numa=node --device cuda", "", "none"},
		{"--set device.numa=node --set device.name=xla", "", "none"},
		{"--nosuch", "", "auto"},
	} {
		t.Setenv("TRIREME_DEVICE_NUMA", c.variable)
		f := &launchFlags{}
		newLaunchCommand(f)
		policy, _, err := f.binding(program{trireme: append([]string{"train"}, strings.Fields(c.args)...)})
		if err != nil || string(policy) != c.want {
			t.Errorf("train %s: %s, want %s: %v", c.args, policy, c.want, err)
		}
	}
	f := &launchFlags{}
	newLaunchCommand(f)
	if policy, _, _ := f.binding(program{trireme: []string{"generate"}}); policy != numa.Unbound {
		t.Errorf("generate: %s", policy)
	}
}
