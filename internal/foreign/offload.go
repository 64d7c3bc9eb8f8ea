package foreign

import (
	"fmt"

	"trireme/internal/conf"
	"trireme/parallel"
)

// oneMemory is the reason that several formats give.
const oneMemory = "on a CPU, host and device are one memory: nothing moves"

// offloadKeys are DeepSpeed's, of where something (optimizer or params) rests. What a file does
// not say is as it is here: that changes memory and time, and no number.
func offloadKeys(of string) keys {
	const (
		ownSize = "buffers are as large as what they are for"
	)
	at := "offload." + of + "."
	ks := keys{
		"device": offloadDevice(of), "nvme_path": maybe(to(at+"path", word)),
		"pin_memory": always(), // nothing is copied to a device from here
		"fast_init":  always(), "pipeline": always(),
		"buffer_count": nothing(ownSize), "buffer_size": nothing(ownSize), "max_in_cpu": nothing("is for parameters"), "ratio": only("1", "is for optimizer state"),
		"pipeline_read": nothing("the next unit is read while one computes, in any case"), "pipeline_write": nothing("is for optimizer state"),
		"super_offload": nothing(oneMemory), "cpuadam_cores_perc": nothing("device.threads divides the processors"),
	}
	if of == "params" {
		ks["max_in_cpu"] = to(at+"max_in_cpu", whole)
		return ks
	}
	ks["buffer_count"], ks["ratio"] = to(at+"buffer_count", whole), to(at+"ratio", number)
	ks["pipeline_read"], ks["pipeline_write"] = to(at+"pipeline_read", boolean), to(at+"pipeline_write", boolean)
	return ks
}

// offloadDevice is where something rests. Parameters rest elsewhere where they are divided.
func offloadDevice(of string) rule {
	return rule{apply: func(r *reader, k key) {
		if k.Kind == conf.Null {
			r.note(k, "", true)
			return
		}
		device, ok := r.choose(k, map[string]string{"none": "none", "cpu": "cpu", "nvme": "nvme"})
		if !ok {
			return
		}
		if stage, known := r.stage(); device == string(parallel.OffloadNVMe) && of == "params" && known && stage != 3 {
			r.fail(k, "is nvme, and stage is %d: parameters are divided, and can rest elsewhere, at stage 3. try: none, or stage 3", stage)
			return
		}
		r.assign(k, "offload."+of+".device", device)
		if device == string(parallel.OffloadCPU) {
			r.note(k, oneMemory+"; nvme takes it out of memory", false)
		}
	}}
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
	return rule{apply: func(r *reader, k key) {
		if !r.right(k, boolean) {
			return
		}
		on, _ := k.Bool()
		if !on {
			r.note(k, "", true)
			return
		}
		for _, what := range of {
			r.assign(k, fmt.Sprintf("offload.%s.device", what), string(parallel.OffloadCPU))
		}
		r.note(k, oneMemory, false)
	}}
}
