package host

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trireme/internal/netif"
)

// good are the facts of a host without problems.
func good() Facts {
	return Facts{
		Name:     "n1",
		Versions: Versions{Program: "v1", Go: "go1.26", Platform: "linux/amd64", Kernel: "6.1", Libc: "glibc 2.36", Kernels: "avx512"},
		Cores:    Cores{Online: 8, Allowed: 8, Threads: 8},
		Memory:   Memory{Available: 16 << 30, Why: "the machine has 32.0GiB, the rest is in use"},
		Limits:   []Limit{{"nofile", 65536, 65536}, {"nproc", -1, -1}, {"memlock", 8 << 20, -1}, {"core", 0, -1}},
		Shared:   Shared{Size: 64 << 20, Free: 64 << 20},
		Disk:     Disk{Dir: "/out", Free: 100 << 30, Write: 500 << 20, Read: 900 << 20, Direct: true},
		Clock:    Clock{Synchronized: true, Known: true, Source: "tsc"},
		Interfaces: []netif.Interface{
			{Name: "lo", Up: true, Loopback: true, MTU: 65536, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}},
			{Name: "eth0", Up: true, MTU: 1500, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.4/24")}},
		},
		Resolution: Resolution{Addresses: []string{"10.0.0.4"}},
	}
}

// Every check passes for a good host, and each defect is found by its check alone.
func TestFindings(t *testing.T) {
	all := good().Findings()
	if Worst(all) != OK || Problems(all) != 0 {
		t.Fatalf("%+v", all)
	}
	for _, f := range all {
		if f.Text == "" || f.Try != "" {
			t.Errorf("%+v", f)
		}
	}
	for name, c := range map[string]struct {
		spoil func(*Facts)
		check string
		state State
		text  string
		try   string
	}{
		"quota":          {func(f *Facts) { f.Cores.Quota = 1.5 }, "cores", Note, "its cgroup may use 1.5 of them", "container or job"},
		"affinity":       {func(f *Facts) { f.Cores.Allowed = 2 }, "cores", OK, "2 of 8 processors are allowed", ""},
		"no memory":      {func(f *Facts) { f.Memory.Available = 100 << 20 }, "memory", Problem, "100.0MiB available (the machine has", "trireme plan"},
		"little memory":  {func(f *Facts) { f.Memory.Available = 1 << 30 }, "memory", Note, "1.0GiB available", "trireme plan"},
		"memory unknown": {func(f *Facts) { f.Memory = Memory{Err: "no file"} }, "memory", Note, "unknown: no file", "device.memory_limit"},
		"no files":       {func(f *Facts) { f.Limits[0] = Limit{"nofile", 64, 128} }, "limits", Problem, "may open 128 files", "ulimit -n"},
		"few files":      {func(f *Facts) { f.Limits[0] = Limit{"nofile", 1024, 1024} }, "limits", Note, "may open 1024 files", "ulimit -n"},
		"raised files":   {func(f *Facts) { f.Limits[0] = Limit{"nofile", 1024, 65536} }, "limits", OK, "nofile 1024 (up to 65536)", ""},
		"few threads":    {func(f *Facts) { f.Limits[1] = Limit{"nproc", 100, 200} }, "limits", Note, "100 processes and threads", "ulimit -u"},
		"address space":  {func(f *Facts) { f.Limits = append(f.Limits, Limit{"as", 2 << 30, -1}) }, "limits", Note, "limited to 2.0GiB", "ulimit -v"},
		"file size":      {func(f *Facts) { f.Limits = append(f.Limits, Limit{"fsize", 1 << 30, -1}) }, "limits", Note, "a file may have 1.0GiB", "ulimit -f"},
		"no memfd":       {func(f *Facts) { f.Shared.Memfd = "memfd_create: operation not permitted" }, "shared memory", Problem, "operation not permitted: ranks of this host", "parallel.backend=tcp"},
		"read-only disk": {func(f *Facts) { f.Disk.Err = "read-only file system" }, "disk", Problem, "/out: read-only", "another directory"},
		"full disk":      {func(f *Facts) { f.Disk.Free = 1 << 20 }, "disk", Problem, "1.0MiB free", "output_dir"},
		"small disk":     {func(f *Facts) { f.Disk.Free = 1 << 30 }, "disk", Note, "1.0GiB free", "output_dir"},
		"slow disk":      {func(f *Facts) { f.Disk.Write = 10 << 20 }, "disk", Note, "a checkpoint of 10 GB takes 16m0s", "another disk"},
		"cached reads":   {func(f *Facts) { f.Disk.Direct = false }, "disk", OK, "(from the cache)", ""},
		"no NTP":         {func(f *Facts) { f.Clock.Synchronized = false }, "clock", Note, "not synchronized", "timedatectl"},
		"slow clock":     {func(f *Facts) { f.Clock.Source = "hpet" }, "clock", Note, "source hpet, which is slow", "tsc"},
		"moved clock":    {func(f *Facts) { f.Clock.Drift, f.Clock.Span = -2*time.Second, clockSpan }, "clock", Note, "moved -2s against", "NTP"},
		"generic":        {func(f *Facts) { f.Versions.Kernels = "generic" }, "versions", Note, "vector instructions", "another processor"},
		"alone":          {func(f *Facts) { f.Interfaces = f.Interfaces[:1] }, "interfaces", Note, "no other: this host can only train alone", "ip address"},
		"Debian":         {func(f *Facts) { f.Resolution.Addresses = []string{"127.0.1.1"} }, "host name", Note, "n1 is 127.0.1.1, a loopback address: MASTER_ADDR=n1 on this host", "/etc/hosts in front of 127.0.1.1"},
		"no name":        {func(f *Facts) { f.Resolution = Resolution{Err: "no such host"} }, "host name", Note, `"n1" does not resolve here (no such host)`, "/etc/hosts"},
	} {
		f := good()
		c.spoil(&f)
		hit := false
		for _, r := range f.Findings() {
			if r.Check != c.check {
				if r.State != OK {
					t.Errorf("%s: also %+v", name, r)
				}
				continue
			}
			hit = true
			if r.State != c.state || !strings.Contains(r.Text, c.text) || !strings.Contains(r.Try, c.try) || (r.State == OK) != (r.Try == "") {
				t.Errorf("%s: %+v, want %+v", name, r, c)
			}
		}
		if !hit {
			t.Errorf("%s: no finding of %s", name, c.check)
		}
	}
}

// TestRead reads this host.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	f := Read(t.Context(), Config{Program: "v1", Dir: filepath.Join(dir, "not", "yet")})
	if f.Cores.Online < 1 || f.Cores.Threads < 1 || f.Versions.Program != "v1" || f.Disk.Dir != dir || f.Disk.Err != "" || len(f.Interfaces) == 0 {
		t.Errorf("%+v", f)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for _, r := range f.Findings() {
		t.Logf("%+v", r)
	}
}

func TestQuota(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if q := quota(root); q != 0 {
		t.Errorf("quota %v without groups", q)
	}
	write("proc/self/cgroup", "0::/a/b\n")
	write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n")
	if q := quota(root); q != 0 {
		t.Errorf("quota %v without a limit", q)
	}
	write("sys/fs/cgroup/a/cpu.max", "150000 100000\n")
	if q := quota(root); q != 1.5 {
		t.Errorf("quota %v of the group above", q)
	}
	write("proc/self/cgroup", "4:cpu,cpuacct:/docker/x\n")
	write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
	write("sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "50000\n")
	write("sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", "100000\n")
	if q := quota(root); q != 0.5 {
		t.Errorf("quota %v in version 1", q)
	}
	write("sys/devices/system/cpu/online", "0-3,6\n")
	if n := online(root); n != 5 {
		t.Errorf("%d processors online", n)
	}
}

// TestVariables: names are unique, specific ones come before those with *, and each that has no effect says why.
func TestVariables(t *testing.T) {
	for i, v := range Variables {
		if j := slices.IndexFunc(Variables, func(w Variable) bool { return w.matches(v.Name) }); j != i {
			t.Errorf("%s is hidden by %s", v.Name, Variables[j].Name)
		}
		if v.Text == "" && !v.Plain {
			t.Errorf("%s has no text", v.Name)
		}
	}
	env := []string{
		"PATH=/bin", "NCCL_DEBUG=INFO", "NCCL_TIMEOUT=1800", "NCCL_SOCKET_IFNAME=eth0", "TORCH_DISTRIBUTED_DEBUG=DETAIL", "NCCL_IB_DISABLE=1",
		"OMP_NUM_THREADS=1", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1", "WANDB_API_KEY=abc", "SLURM_PROCID=0", "GLOO_OTHER=1", "MKL_NUM_THREADS=",
	}
	want := "note: variables without effect: NCCL_DEBUG, NCCL_TIMEOUT (use parallel.timeout_seconds), NCCL_IB_DISABLE, TORCH_DISTRIBUTED_DEBUG, GLOO_OTHER, WANDB_API_KEY (use logging.wandb.mode). trireme doctor explains each"
	if got := WithoutEffect(env, "cpu", true); got != want {
		t.Errorf("%s", got)
	}
	if got := WithoutEffect([]string{env[5], env[6], env[8]}, "cuda", false); got != "note: variables without effect: OMP_NUM_THREADS (use device.threads), WANDB_API_KEY (use logging.wandb.mode). trireme doctor explains each" {
		t.Errorf("%s", got)
	}
	if got := WithoutEffect(env[:1], "cpu", false); got != "" {
		t.Errorf("%s", got)
	}
	var lines []string
	for _, s := range Set(env) {
		if f, ok := s.Finding(); ok {
			lines = append(lines, string(f.State)+" "+f.Text+" | "+f.Try)
		}
	}
	for _, want := range []string{
		"ok NCCL_SOCKET_IFNAME=eth0: the network interface for data between hosts, unless parallel.interface is set | ",
		"note NCCL_TIMEOUT=1800 has no effect: NCCL does not read it either | the key parallel.timeout_seconds",
		"ok NCCL_IB_DISABLE=1: read by the NCCL library in runs on several GPUs; ranks on CPUs do not use NCCL. here: parallel.interface=ib0 (TCP over InfiniBand), or parallel.backend=mpi | ",
		"note WANDB_API_KEY has no effect: nothing is sent to Weights & Biases; wandb sync reads it | the key logging.wandb.mode",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
}
