package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"trireme/device"
	"trireme/internal/disk"
	"trireme/monitor"
	"trireme/parallel"
	"trireme/planner"
	"trireme/tensor"
)

// What a process needs besides tensors and batches: the program with its goroutines, and the
// scratch of operations on each of its threads (docs/plan.md has what was measured).
const (
	overhead  device.Bytes = 64 << 20
	perThread device.Bytes = 2 << 20
)

// foresee refuses a job of which so many ranks of this machine are planned to need more memory
// than there is, before any of them starts, and says what would do. Where the system does not
// say what it has, nothing is foreseen.
func (j *job) checkMemory(ctx context.Context, local int, stderr io.Writer) error {
	if err := j.checkOffloadDirs(); err != nil {
		return err
	}
	has, err := j.memory()
	if err != nil {
		return nil // there is no such figure on this system
	}
	p, err := j.plan(ctx)
	if err != nil {
		return err
	}
	if err := j.checkDisk(local, p); err != nil {
		return err
	}
	own := int64(overhead) + int64(perThread)*int64(j.cfg.Device.ThreadsPerRank(local)) + j.summary.PrefetchBytes
	need := int64(local) * (p.Memory.PeakTotal + own)
	if need > has.Bytes {
		// This process may have made the tokens, and what that took is free by now.
		debug.FreeOSMemory()
		if has, err = j.memory(); err != nil {
			return err
		}
	}
	if need <= has.Bytes {
		return nil
	}
	each := device.Bytes(need / int64(local)).Binary()
	who := "rank 0 needs " + each
	if local > 1 {
		who = fmt.Sprintf("%d ranks need %s each, %s together", local, each, device.Bytes(need).Binary())
	}
	what := fmt.Sprintf("%s, and there are %s: %s", who, device.Bytes(has.Bytes).Binary(), memoryParts(p.Memory, own))
	if j.cfg.Device.Overcommit {
		_, err := fmt.Fprintf(stderr, "warning: %s: device.overcommit starts all the same\n", what)
		return err
	}
	job := j.planJob(j.model, j.summary.SequenceLength, j.summary.Micro, j.summary.Ranks, j.summary.Local)
	changes, err := job.Changes(ctx, has.Bytes/int64(local)-own)
	if err != nil {
		return err
	}
	return &Exit{CodeNo, &Problem{
		Text: what, Why: has.Why, Try: memoryRemedies(changes, p),
	}}
}

// place is a directory where something of a run rests, and the key that names it.
type offloadDir struct{ key, dir string }

// places are the directories of the run's state and activations that rest in files.
func (j *job) offloadDirs() (all []offloadDir) {
	output := j.cfg.OutputDir
	if output == "" {
		output = runsDir // where it is going to be made
	}
	off := j.cfg.Offload.WithDir(output)
	if off.Optimizer.Device == parallel.OffloadNVMe {
		all = append(all, offloadDir{"offload.optimizer.path", off.Optimizer.Path})
	}
	if off.Params.Device == parallel.OffloadNVMe {
		all = append(all, offloadDir{"offload.params.path", off.Params.Path})
	}
	if dir, ok := j.cfg.Recompute.Directory(output); ok {
		all = append(all, offloadDir{"activation_checkpointing.store_path", dir})
	}
	return all
}

// foreseePlaces refuses directories that take no file.
func (j *job) checkOffloadDirs() error {
	for _, at := range j.offloadDirs() {
		err := disk.CheckDir(at.dir)
		if err == nil || errors.Is(err, syscall.ENOSPC) { // how much space there is not, is told with the plan
			continue
		}
		return &Exit{CodeUsage, &Problem{
			Text: withOrigin(j.origins[at.key], fmt.Sprintf("%s: %v", at.key, err)), Try: "--set " + at.key + "=DIR, a directory that files can be made in", Err: err,
		}}
	}
	return nil
}

// foreseeDisk refuses a job that rests more on a disk than it has space for.
func (j *job) checkDisk(local int, p planner.Plan) error {
	all := j.offloadDirs()
	if len(all) == 0 || slices.ContainsFunc(all, func(at offloadDir) bool { return at.dir != all[0].dir }) {
		return nil // on two disks each file says itself what it lacks, as its space is taken
	}
	need, has := int64(local)*p.Memory.Peak[tensor.Offloaded], disk.Free(all[0].dir)
	if need == 0 || has == 0 || need <= has {
		return nil
	}
	less := "activation_checkpointing.store=memory"
	if all[0].key == "offload.optimizer.path" {
		less = "offload.optimizer.device=none"
	}
	return &Exit{CodeNo, &Problem{
		Text: fmt.Sprintf("%d ranks off-load %s together, and there are %s", local, device.Bytes(need).Binary(), device.Bytes(has).Binary()),
		Why:  "that is what the file system of " + all[0].dir + " has left", Try: "--set " + all[0].key + "=DIR on another disk, or " + less,
	}}
}

// memory is what the ranks of this machine may take.
func (j *job) memory() (monitor.Available, error) {
	if limit := j.cfg.Device.MemoryLimit; limit > 0 {
		return monitor.Available{Bytes: int64(limit), Why: fmt.Sprintf("device.memory_limit is %v", limit)}, nil
	}
	return monitor.ReadAvailable()
}

// parts lists what a peak is made of, the largest first, and what the process takes besides.
func memoryParts(m tensor.Usage, own int64) string {
	type part struct {
		name  string
		bytes int64
	}
	var all []part
	for c := range tensor.NumCategories {
		if m.AtPeak[c] > 0 && c != tensor.Offloaded {
			all = append(all, part{c.String(), m.AtPeak[c]})
		}
	}
	all = append(all, part{"the process itself and its batches", own})
	slices.SortStableFunc(all, func(a, b part) int { return int(min(1, max(-1, b.bytes-a.bytes))) })
	var text []string
	rest := device.Bytes(0)
	for _, p := range all {
		if p.bytes < (m.PeakTotal+own)/100 {
			rest += device.Bytes(p.bytes)
			continue
		}
		text = append(text, p.name+" "+device.Bytes(p.bytes).Binary())
	}
	if rest > 0 {
		text = append(text, "the rest "+rest.Binary())
	}
	return strings.Join(text, ", ")
}

// remedies are what a user may paste.
func memoryRemedies(changes []planner.Change, p planner.Plan) string {
	var b strings.Builder
	b.WriteString("one of these")
	for _, c := range changes {
		fmt.Fprintf(&b, "\n  --set %s   (%s: %s)", strings.Join(c.Keys, " --set "), c.What, c.Effect(p))
	}
	if len(changes) == 0 {
		b.WriteString("; no smaller micro-batch, sharding, recomputation or off-loading is enough here\n  more machines, or shorter rows (data.sequence_length)")
	}
	b.WriteString("\n  --set device.overcommit=true   (start all the same)")
	return b.String()
}
