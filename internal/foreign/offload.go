package foreign

import (
	"fmt"
	"strings"

	"trireme/internal/conf"
	"trireme/parallel"
)

// oneMemory is the reason that several formats give.
const oneMemory = "on a CPU, host and device share one memory"

// What has one way where state rests in files.
const (
	oneAhead = "while something is in use the next is read and the one before is written"
	allOfIt  = "all of it is offloaded"
)

// offloadKeys are DeepSpeed's for where something (optimizer or params) is stored. A file that
// says nothing of the details gets this program's: they change memory and time, and no number.
func offloadKeys(of string) keys {
	ks := keys{
		"device": offloadDevice(of), "nvme_path": maybe(to("offload."+of+".path", word)),
		"pin_memory": silent("nothing is copied to a device"), "fast_init": silent("state starts as zeros in its files"),
		"pipeline": silent(oneAhead), "pipeline_read": silent(oneAhead), "pipeline_write": silent(oneAhead),
		"buffer_count": silent(oneAhead), "buffer_size": silent("a buffer is as large as what it carries"),
		"max_in_cpu": silent(allOfIt), "ratio": only("1", allOfIt),
		"super_offload": ignored(oneMemory), "cpuadam_cores_perc": silent("device.threads divides the processors"),
	}
	if of == "params" {
		ks["max_in_cpu"] = ignored(allOfIt)
	}
	return ks
}

// offloadDevice is where something is stored. Parameters can be stored elsewhere where they are
// divided.
func offloadDevice(of string) rule {
	return custom("`offload."+of+".device`; cpu moves nothing: "+oneMemory, func(r *reader, k key) {
		if k.Kind == conf.Null {
			return
		}
		device, ok := r.choose(k, map[string]string{"none": "none", "cpu": "cpu", "nvme": "nvme"})
		if !ok {
			return
		}
		if stage, known := r.stage(); device == string(parallel.OffloadNVMe) && of == "params" && known && stage != 3 {
			r.fail(k, "is nvme, and stage is %d: parameters are divided, and can be offloaded, at stage 3. try: none, or stage 3", stage)
			return
		}
		r.assign(k, "offload."+of+".device", device)
		if device == string(parallel.OffloadCPU) && !r.options.Apart {
			r.note(k, "moves nothing: "+oneMemory+". nvme keeps it in files")
		}
	})
}

// stage is ZeRO's, where a file says it.
func (r *reader) stage() (int, bool) {
	for _, path := range [][]string{{"zero_optimization", "stage"}, {"deepspeed_config", "zero_stage"}} {
		if k, ok := r.find(path...); ok {
			n, err := k.Int()
			return int(n), err == nil
		}
	}
	return 0, false
}

// offloadWhole is a key that asks for the host by true.
func offloadWhole(of ...string) rule {
	var says []string
	for _, what := range of {
		says = append(says, "`offload."+what+".device`")
	}
	return custom(strings.Join(says, ", ")+"; moves nothing: "+oneMemory, func(r *reader, k key) {
		if !r.right(k, boolean) {
			return
		}
		if on, _ := k.Bool(); !on {
			return
		}
		for _, what := range of {
			r.assign(k, fmt.Sprintf("offload.%s.device", what), string(parallel.OffloadCPU))
		}
		if r.options.Apart {
			return
		}
		r.note(k, "moves nothing: "+oneMemory+". offload.optimizer.device: nvme keeps state in files")
	})
}
