package foreign

import (
	"fmt"
	"strings"

	"trireme/internal/conf"
	"trireme/parallel"
)

// oneMemory is the reason that several formats give.
const sharedMemory = "on a CPU, host and device share one memory"

// What has one way where state rests in files.
const (
	readAhead    = "while something is in use the next is read and the one before is written"
	allOffloaded = "all of it is offloaded"
)

// offloadKeys are DeepSpeed's for where something (optimizer or params) is stored. A file that
// says nothing of the details gets this program's: they change memory and time, and no number.
func offloadKeys(of string) keys {
	ks := keys{
		"device": offloadDevice(of), "nvme_path": nullable(to("offload."+of+".path", textual)),
		"pin_memory": noEffect("nothing is copied to a device"), "fast_init": noEffect("state starts as zeros in its files"),
		"pipeline": noEffect(readAhead), "pipeline_read": noEffect(readAhead), "pipeline_write": noEffect(readAhead),
		"buffer_count": noEffect(readAhead), "buffer_size": noEffect("a buffer is as large as what it carries"),
		"max_in_cpu": noEffect(allOffloaded), "ratio": constant("1", allOffloaded),
		"super_offload": ignored(sharedMemory), "cpuadam_cores_perc": noEffect("device.threads divides the processors"),
	}
	if of == "params" {
		ks["max_in_cpu"] = ignored(allOffloaded)
	}
	return ks
}

// offloadDevice is where something is stored. Parameters can be stored elsewhere where they are
// divided.
func offloadDevice(of string) rule {
	return custom("`offload."+of+".device`; cpu moves nothing: "+sharedMemory, func(r *reader, k key) {
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
		if device == string(parallel.OffloadCPU) && !r.options.DeviceMemory {
			r.note(k, "moves nothing: "+sharedMemory+". nvme keeps it in files")
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
func offloadToHost(of ...string) rule {
	var says []string
	for _, what := range of {
		says = append(says, "`offload."+what+".device`")
	}
	return custom(strings.Join(says, ", ")+"; moves nothing: "+sharedMemory, func(r *reader, k key) {
		if !r.checkValue(k, boolean) {
			return
		}
		if on, _ := k.Bool(); !on {
			return
		}
		for _, what := range of {
			r.assign(k, fmt.Sprintf("offload.%s.device", what), string(parallel.OffloadCPU))
		}
		if r.options.DeviceMemory {
			return
		}
		r.note(k, "moves nothing: "+sharedMemory+". offload.optimizer.device: nvme keeps state in files")
	})
}
