package host

import (
	"context"
	"errors"
	"net"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"trireme/internal/impl"
	"trireme/internal/netif"
	"trireme/monitor"
)

// Facts are the properties of a host. A part that cannot be read has an Err or is zero.
type Facts struct {
	Name       string            `json:"name"` // its own host name
	Versions   Versions          `json:"versions"`
	Cores      Cores             `json:"cores"`
	Memory     Memory            `json:"memory"`
	Limits     []Limit           `json:"limits"`
	Shared     Shared            `json:"shared_memory"`
	Disk       Disk              `json:"disk"`
	Clock      Clock             `json:"clock"`
	Interfaces []netif.Interface `json:"interfaces"`
	Resolution Resolution        `json:"resolution"`
}

// Versions are those of the program and of the software below it.
type Versions struct {
	Program  string `json:"program"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Kernel   string `json:"kernel,omitempty"`
	Libc     string `json:"libc,omitempty"` // "glibc 2.36"; empty: none or unknown
	Kernels  string `json:"kernels"`        // variant of the program's loops, such as avx512
}

// Cores are the processors.
type Cores struct {
	Online  int     `json:"online"`  // of the machine
	Allowed int     `json:"allowed"` // to this process, by its affinity
	Quota   float64 `json:"quota"`   // processors that its cgroup may use; 0: no limit
	Threads int     `json:"threads"` // that computing ranks share: GOMAXPROCS
}

// Memory is in bytes.
type Memory struct {
	Available int64  `json:"available"` // to this process and its children
	Why       string `json:"why"`       // the limit
	Err       string `json:"error,omitempty"`
}

// Limit is a resource limit (ulimit). -1 is unlimited.
type Limit struct {
	Name string `json:"name"` // as ulimit's documentation has it: nofile, memlock
	Soft int64  `json:"soft"`
	Hard int64  `json:"hard"`
}

// Shared is memory that processes of the host share.
type Shared struct {
	Memfd string `json:"memfd"`          // why unnamed memory files do not work; empty: they do
	Size  int64  `json:"size,omitempty"` // of /dev/shm, bytes; 0: there is none
	Free  int64  `json:"free,omitempty"`
}

// Resolution is how the host's own name resolves here.
type Resolution struct {
	Addresses []string `json:"addresses"`
	Err       string   `json:"error,omitempty"`
}

// Config configures Read.
type Config struct {
	Program string // version of this program
	Dir     string // directory whose disk is measured; empty: none. It may not exist yet
}

// resolveTime limits the resolution of the host's own name.
const resolveTime = 2 * time.Second

// Read reads the facts of this host in about a second.
func Read(ctx context.Context, cfg Config) Facts {
	f := Facts{
		Versions: Versions{
			Program: cfg.Program, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
			Kernel: kernel(), Libc: libc(), Kernels: impl.Best().String(),
		},
		Cores:  Cores{Online: online("/"), Allowed: runtime.NumCPU(), Quota: quota("/"), Threads: runtime.GOMAXPROCS(0)},
		Limits: limits(),
		Shared: shared(),
	}
	f.Name, _ = os.Hostname() // empty: the name check reports it
	available, err := monitor.ReadAvailable()
	f.Memory = Memory{Available: available.Bytes, Why: available.Why}
	if err != nil {
		f.Memory.Err = err.Error()
	}
	f.Interfaces, _ = netif.List() // none: reported as such
	var wg sync.WaitGroup
	wg.Go(func() { f.Clock = readClock("/") })
	wg.Go(func() { f.Resolution = resolve(ctx, f.Name) })
	if cfg.Dir != "" {
		wg.Go(func() { f.Disk = measureDisk(cfg.Dir) })
	}
	wg.Wait()
	return f
}

// resolve resolves a name as the operating system does.
func resolve(ctx context.Context, name string) (r Resolution) {
	r.Addresses = []string{}
	if name == "" {
		r.Err = "the host has no name"
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	all, err := net.DefaultResolver.LookupHost(ctx, name)
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		r.Err = "no such host"
	case err != nil && ctx.Err() != nil:
		r.Err = "no answer within " + resolveTime.String()
	case err != nil:
		r.Err = err.Error()
	default:
		r.Addresses = all
	}
	return r
}

// quota returns the processors that the process's cgroup and its ancestors allow; 0: no limit.
func quota(root string) float64 {
	b, err := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0
	}
	least := 0.0
	add := func(limit, period float64) {
		if limit > 0 && period > 0 && (least == 0 || limit/period < least) {
			least = limit / period
		}
	}
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for name := path.Join("/", f[2]); ; name = path.Dir(name) {
			switch {
			case f[0] == "0" && f[1] == "":
				add(pair(path.Join(root, "sys/fs/cgroup", name, "cpu.max")))
			case strings.Contains(","+f[1]+",", ",cpu,"):
				dir := path.Join(root, "sys/fs/cgroup/cpu", name)
				limit, _ := pair(path.Join(dir, "cpu.cfs_quota_us"))
				period, _ := pair(path.Join(dir, "cpu.cfs_period_us"))
				add(limit, period)
			}
			if name == "/" {
				break
			}
		}
	}
	return least
}

// pair reads up to two numbers of a file; 0 for what is no number, such as "max".
func pair(file string) (a, b float64) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, 0
	}
	f := append(strings.Fields(string(text)), "", "")
	a, _ = strconv.ParseFloat(f[0], 64) // 0 if invalid
	b, _ = strconv.ParseFloat(f[1], 64)
	return a, b
}

// online returns the number of processors of the machine.
func online(root string) int {
	b, err := os.ReadFile(path.Join(root, "sys/devices/system/cpu/online"))
	if err != nil {
		return runtime.NumCPU()
	}
	n := 0
	for _, part := range strings.Split(strings.TrimSpace(string(b)), ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			return runtime.NumCPU()
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(to); err != nil {
				return runtime.NumCPU()
			}
		}
		n += last - first + 1
	}
	return n
}
