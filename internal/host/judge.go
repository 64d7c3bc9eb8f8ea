package host

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"trireme/internal/netif"
	"trireme/monitor"
)

// Below these a run fails or is slow.
const (
	fewMemory   = 256 << 20 // problem
	someMemory  = 2 << 30   // note
	fewFiles    = 256       // problem: descriptors for ranks, data and checkpoints
	someFiles   = 4096      // note
	someProcs   = 1024      // note: each rank has tens of threads
	fewSpace    = 100 << 20 // problem
	someSpace   = 10 << 30  // note
	slowDisk    = 50 << 20  // note, bytes per second
	someDrift   = time.Millisecond
	addressNeed = 4 << 30 // note: reserved address space of a small run
)

// Findings judges facts of a host.
func (f Facts) Findings() []Finding {
	out := []Finding{f.Versions.finding(), f.Cores.finding(), f.Memory.finding()}
	out = append(out, limitFindings(f.Limits)...)
	out = append(out, f.Shared.finding())
	if f.Disk.Dir != "" || f.Disk.Err != "" {
		out = append(out, f.Disk.finding())
	}
	return append(out, f.Clock.finding(), interfaceFinding(f.Interfaces), f.Resolution.finding(f.Name))
}

func (v Versions) finding() Finding {
	parts := []string{"trireme " + v.Program, v.Go, v.Platform}
	if v.Kernel != "" {
		parts = append(parts, "kernel "+v.Kernel)
	}
	if v.Libc != "" {
		parts = append(parts, v.Libc)
	}
	r := Finding{Check: "versions", State: OK, Text: strings.Join(append(parts, v.Kernels+" loops"), ", ")}
	if v.Kernels == "generic" {
		r.State, r.Text, r.Try = Note, r.Text+": this processor has none of the vector instructions that the fast loops use", "another processor, or expect a tenth of the speed"
	}
	return r
}

func (c Cores) finding() Finding {
	r := Finding{Check: "cores", State: OK, Text: fmt.Sprintf("%d processors, %d threads for computing", c.Online, c.Threads)}
	if c.Allowed < c.Online {
		r.Text = fmt.Sprintf("%d of %d processors are allowed to this process, %d threads for computing", c.Allowed, c.Online, c.Threads)
	}
	if c.Quota > 0 && c.Quota < float64(c.Allowed) {
		r.State = Note
		r.Text += fmt.Sprintf("; its cgroup may use %.3g of them", c.Quota)
		r.Try = "a larger limit of processors for the container or job"
	}
	return r
}

func (m Memory) finding() Finding {
	r := Finding{Check: "memory", State: OK}
	if m.Err != "" {
		r.State, r.Text, r.Try = Note, "unknown: "+m.Err, "set device.memory_limit, so that runs are checked against it"
		return r
	}
	r.Text = fmt.Sprintf("%s available (%s)", monitor.Bytes(m.Available), m.Why)
	try := "stop other programs, or raise the limit of the container or job; trireme plan computes what a run needs"
	switch {
	case m.Available < fewMemory:
		r.State, r.Try = Problem, try
	case m.Available < someMemory:
		r.State, r.Try = Note, try
	}
	return r
}

func limitFindings(all []Limit) []Finding {
	var texts []string
	var out []Finding
	for _, l := range all {
		texts = append(texts, fmt.Sprintf("%s %s", l.Name, l.text()))
		add := func(state State, text, try string) {
			out = append(out, Finding{Check: "limits", State: state, Text: text, Try: try})
		}
		switch low := func(n int64) bool { return l.Hard >= 0 && l.Hard < n }; {
		case l.Name == "nofile" && low(fewFiles): // the program raises the soft limit itself
			add(Problem, fmt.Sprintf("a process may open %d files, which is too few for ranks and checkpoints", l.Hard), "ulimit -n 65536 before the run, or LimitNOFILE of the service")
		case l.Name == "nofile" && low(someFiles):
			add(Note, fmt.Sprintf("a process may open %d files: enough for small runs, not for hundreds of ranks", l.Hard), "ulimit -n 65536 before the run")
		case l.Name == "nproc" && l.Soft >= 0 && l.Soft < someProcs:
			add(Note, fmt.Sprintf("the user may have %d processes and threads; each rank has tens", l.Soft), "ulimit -u 65536 before the run")
		case l.Name == "as" && l.Soft >= 0 && l.Soft < addressNeed:
			add(Note, fmt.Sprintf("the address space is limited to %s; tensors reserve more than they use", monitor.Bytes(l.Soft)), "ulimit -v unlimited, or a limit of memory instead (h_vmem to h_rss)")
		case l.Name == "fsize" && l.Soft >= 0:
			add(Note, fmt.Sprintf("a file may have %s; checkpoints can have more", monitor.Bytes(l.Soft)), "ulimit -f unlimited")
		}
	}
	if len(out) == 0 && len(texts) > 0 {
		out = append(out, Finding{Check: "limits", State: OK, Text: strings.Join(texts, ", ")})
	}
	return out
}

func (l Limit) text() string {
	one := func(n int64) string {
		switch {
		case n < 0:
			return "unlimited"
		case l.Name == "nofile" || l.Name == "nproc":
			return fmt.Sprint(n)
		}
		return monitor.Bytes(n)
	}
	if l.Soft == l.Hard {
		return one(l.Soft)
	}
	return one(l.Soft) + " (up to " + one(l.Hard) + ")"
}

func (s Shared) finding() Finding {
	r := Finding{Check: "shared memory", State: OK, Text: "memory files work, /dev/shm is not needed"}
	if s.Size > 0 {
		r.Text = fmt.Sprintf("memory files work; /dev/shm (%s, %s free) is not needed", monitor.Bytes(s.Size), monitor.Bytes(s.Free))
	}
	if s.Memfd != "" {
		r.State, r.Text, r.Try = Problem, s.Memfd+": ranks of this host cannot share memory", "parallel.backend=tcp, or a container profile (seccomp) that allows memfd_create"
	}
	return r
}

func (d Disk) finding() Finding {
	r := Finding{Check: "disk", State: OK}
	if d.Err != "" {
		r.State, r.Text, r.Try = Problem, d.Dir+": "+d.Err, "another directory for the run"
		return r
	}
	r.Text = d.Dir + ": "
	if d.Free > 0 {
		r.Text += monitor.Bytes(d.Free) + " free"
	}
	if d.Write > 0 {
		cached := ""
		if !d.Direct {
			cached = " (from the cache)"
		}
		r.Text += fmt.Sprintf(", writes %s/s with fsync, reads %s/s%s", monitor.Bytes(d.Write), monitor.Bytes(d.Read), cached)
	}
	try := "free space, or another disk for output_dir and data.cache_dir"
	switch {
	case d.Free > 0 && d.Free < fewSpace:
		r.State, r.Try = Problem, try
	case d.Free > 0 && d.Free < someSpace:
		r.State, r.Try = Note, try
	case d.Write > 0 && d.Write < slowDisk:
		r.State = Note
		r.Text += fmt.Sprintf(": a checkpoint of 10 GB takes %v", (10e9 / time.Duration(d.Write) * time.Second).Round(time.Minute))
		r.Try = "another disk for output_dir, or fewer checkpoints (checkpoint.save_every_n_steps)"
	}
	return r
}

// exactSources are clock sources that a program reads without a call to the kernel or the hypervisor.
var exactSources = []string{"", "tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "xen", "arch_sys_counter"}

func (c Clock) finding() Finding {
	r := Finding{Check: "clock", State: OK, Text: "synchronized"}
	switch {
	case !c.Known:
		r.Text = "synchronization unknown"
	case !c.Synchronized:
		r.State, r.Text, r.Try = Note, "not synchronized: times in logs of several hosts do not compare", "timedatectl set-ntp true, or chrony; in a container, on its machine"
	}
	if c.Source != "" {
		r.Text += ", source " + c.Source
	}
	if !slices.Contains(exactSources, c.Source) {
		r.State, r.Text, r.Try = Note, r.Text+", which is slow to read", "a kernel that trusts the processor's counter (tsc)"
	}
	if d := c.Drift.Abs(); d > someDrift {
		r.State, r.Text, r.Try = Note, fmt.Sprintf("the wall clock moved %v against the monotonic one within %v", c.Drift, c.Span.Round(time.Millisecond)), "wait until NTP has set the clock"
	}
	return r
}

func interfaceFinding(all []netif.Interface) Finding {
	r := Finding{Check: "interfaces", State: OK}
	var parts []string
	outside := false
	for _, i := range all {
		if !i.Up || len(i.Addresses) == 0 {
			continue
		}
		var as []string
		for _, a := range i.Addresses {
			if !a.Addr().IsLinkLocalUnicast() {
				as = append(as, a.Addr().String())
				outside = outside || !a.Addr().IsLoopback()
			}
		}
		if len(as) > 0 {
			parts = append(parts, fmt.Sprintf("%s %s (MTU %d)", i.Name, strings.Join(as, " "), i.MTU))
		}
	}
	r.Text = strings.Join(parts, ", ")
	if !outside {
		r.State, r.Try = Note, "ip address: an interface must be up and have an address for runs on several hosts"
		r.Text = strings.TrimPrefix(r.Text+", and no other: this host can only train alone", ", ")
	}
	return r
}

func (r Resolution) finding(name string) Finding {
	f := Finding{Check: "host name", State: OK, Text: fmt.Sprintf("%s is %s", name, strings.Join(r.Addresses, ", "))}
	switch {
	case r.Err != "":
		f.State, f.Text, f.Try = Note, fmt.Sprintf("%q does not resolve here (%s): other programs may need it", name, r.Err), "its address in /etc/hosts or DNS; Trireme's launcher uses the address of an interface"
	case r.Loopback():
		f.State = Note
		f.Text += fmt.Sprintf(", a loopback address: MASTER_ADDR=%s on this host is not the address that other hosts reach", name)
		f.Try = "its network address in /etc/hosts in front of " + r.Addresses[0] + ", or an address as MASTER_ADDR"
	}
	return f
}

// Loopback reports whether the name resolves to loopback addresses only, as Debian writes 127.0.1.1 to
// /etc/hosts.
func (r Resolution) Loopback() bool {
	for _, a := range r.Addresses {
		if ip, err := netip.ParseAddr(a); err != nil || !ip.IsLoopback() {
			return false
		}
	}
	return len(r.Addresses) > 0
}
