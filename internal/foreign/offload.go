package foreign

import (
	"fmt"
	"strings"

	"trireme/internal/conf"
	"trireme/parallel"
)

// Reasons for keys of offloading.
const (
	sharedMemory = "host and device share memory on a CPU"
	readAhead    = "reads and writes always overlap with use"
	allOffloaded = "nvme offloads all of it, cpu nothing"
)

// offloadKeys are DeepSpeed's keys for offloading the optimizer or params. Defaults of details are
// Trireme's: they change memory and time, but no numbers.
func offloadKeys(of string) keys {
	ks := keys{
		"device": offloadDevice(of), "nvme_path": nullable(to("offload."+of+".path", textual)),
		"pin_memory": noEffect("nothing is copied to a device"), "fast_init": noEffect("state files start as zeros"),
		"pipeline": noEffect(readAhead), "pipeline_read": noEffect(readAhead), "pipeline_write": noEffect(readAhead),
		"buffer_count": noEffect(readAhead), "buffer_size": noEffect("buffers are sized to their contents"),
		"max_in_cpu": noEffect(allOffloaded), "ratio": constant("1", allOffloaded),
		"super_offload": ignored(sharedMemory), "cpuadam_cores_perc": noEffect("device.threads assigns processors"),
	}
	if of == "params" {
		ks["max_in_cpu"] = ignored(allOffloaded)
	}
	return ks
}

// offloadDevice is the rule for an offload device. Only sharded parameters can be offloaded to files.
func offloadDevice(of string) rule {
	return custom("`offload."+of+".device`; cpu has no effect: "+sharedMemory, func(r *reader, k key) {
		if k.Kind == conf.Null {
			return
		}
		device, ok := r.choose(k, map[string]string{"none": "none", "cpu": "cpu", "nvme": "nvme"})
		if !ok {
			return
		}
		if stage, known := r.stage(); device == string(parallel.OffloadNVMe) && of == "params" && known && stage != 3 {
			r.fail(k, "is nvme, but stage is %d: parameters can be offloaded at stage 3 only. try: none, or stage 3", stage)
			return
		}
		r.assign(k, "offload."+of+".device", device)
		if device == string(parallel.OffloadCPU) && !r.options.DeviceMemory {
			r.note(k, "has no effect: "+sharedMemory+". nvme offloads to files")
		}
	})
}

// stage returns the ZeRO stage in the file.
func (r *reader) stage() (int, bool) {
	for _, path := range [][]string{{"zero_optimization", "stage"}, {"deepspeed_config", "zero_stage"}} {
		if k, ok := r.find(path...); ok {
			n, err := k.Int()
			return int(n), err == nil
		}
	}
	return 0, false
}

// offloadToHost is the rule for a key that offloads to the host if true.
func offloadToHost(of ...string) rule {
	var says []string
	for _, what := range of {
		says = append(says, "`offload."+what+".device`")
	}
	return custom(strings.Join(says, ", ")+"; no effect: "+sharedMemory, func(r *reader, k key) {
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
		r.note(k, "has no effect: "+sharedMemory+". offload.optimizer.device: nvme offloads state to files")
	})
}
