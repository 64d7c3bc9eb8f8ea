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

// Memory of a process besides tensors and batches: the program itself, and the scratch memory of
// operations per thread (measured in docs/plan.md).
const (
	overhead  device.Bytes = 64 << 20
	perThread device.Bytes = 2 << 20
)

// checkMemory refuses a job whose local ranks on this machine are planned to exceed its memory, and
// suggests changes. It checks nothing if the available memory is unknown.
func (j *job) checkMemory(ctx context.Context, local int, stderr io.Writer) error {
	if err := j.checkOffloadDirs(); err != nil {
		return err
	}
	card, err := j.cfg.Device.Check(local)
	if err != nil {
		return &Exit{CodeUsage, err}
	}
	has, err := j.memory(card, local)
	if err != nil {
		return nil // unknown on this operating system
	}
	p, err := j.plan(ctx)
	if err != nil {
		return err
	}
	j.planned = plannedBytes(p.Memory)
	if err := j.checkDisk(local, p); err != nil {
		return err
	}
	own := int64(overhead)/int64(max(1, j.perProc)) + int64(perThread)*int64(j.cfg.Device.ThreadsPerRank(local)) + j.summary.PrefetchBytes
	if card.Bytes > 0 {
		own = 0 // in the memory of the host
	}
	need := int64(local) * (p.Memory.PeakTotal + own)
	if need > has.Bytes {
		// Return memory of tokenizing to the operating system.
		debug.FreeOSMemory()
		if has, err = j.memory(card, local); err != nil {
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
	what := fmt.Sprintf("%s, but %s are available: %s", who, device.Bytes(has.Bytes).Binary(), memoryParts(p.Memory, own))
	if j.cfg.Device.Overcommit {
		_, err := fmt.Fprintf(stderr, "warning: %s: starting anyway (device.overcommit)\n", what)
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

// offloadDir is a directory of offloaded data and its key.
type offloadDir struct{ key, dir string }

func (j *job) offloadDirs() (all []offloadDir) {
	output := j.cfg.OutputDir
	if output == "" {
		output = runsDir // parent of the directory to be created
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

// checkOffloadDirs refuses directories that are not writable.
func (j *job) checkOffloadDirs() error {
	for _, at := range j.offloadDirs() {
		err := disk.CheckDir(at.dir)
		if err == nil || errors.Is(err, syscall.ENOSPC) { // checkDisk reports lack of space
			continue
		}
		return &Exit{CodeUsage, &Problem{
			Text: withOrigin(j.origins[at.key], fmt.Sprintf("%s: %v", at.key, err)), Try: "--set " + at.key + "=DIR, a writable directory", Err: err,
		}}
	}
	return nil
}

// checkDisk refuses a job that offloads more than the free space of the disk.
func (j *job) checkDisk(local int, p planner.Plan) error {
	all := j.offloadDirs()
	if len(all) == 0 || slices.ContainsFunc(all, func(at offloadDir) bool { return at.dir != all[0].dir }) {
		return nil // with several disks, creating the files reports lack of space
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
		Text: fmt.Sprintf("%d ranks offload %s together, but %s are free", local, device.Bytes(need).Binary(), device.Bytes(has).Binary()),
		Why:  "free space of the file system of " + all[0].dir, Try: "--set " + all[0].key + "=DIR on another disk, or " + less,
	}}
}

// memory returns the memory of local ranks: of their devices if card is not zero, else of the machine.
func (j *job) memory(card device.Available, local int) (monitor.Available, error) {
	if card.Bytes > 0 {
		return monitor.Available{Bytes: int64(card.Bytes) * int64(local), Why: card.Why}, nil
	}
	if limit := j.cfg.Device.MemoryLimit; limit > 0 {
		return monitor.Available{Bytes: int64(limit), Why: fmt.Sprintf("device.memory_limit is %v", limit)}, nil
	}
	return monitor.ReadAvailable()
}

// memoryParts lists the categories at the peak and own, the process's other memory, largest first.
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
	all = append(all, part{"process and batches", own})
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
		text = append(text, "other "+rest.Binary())
	}
	return strings.Join(text, ", ")
}

func memoryRemedies(changes []planner.Change, p planner.Plan) string {
	var b strings.Builder
	b.WriteString("one of these")
	for _, c := range changes {
		fmt.Fprintf(&b, "\n  --set %s   (%s: %s)", strings.Join(c.Keys, " --set "), c.What, c.Effect(p))
	}
	if len(changes) == 0 {
		b.WriteString("; no smaller micro-batch, sharding, recomputation or offloading is enough\n  more machines, or shorter rows (data.sequence_length)")
	}
	b.WriteString("\n  --set device.overcommit=true   (start anyway)")
	return b.String()
}
