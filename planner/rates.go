package planner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"trireme/fault"
	"trireme/internal/durable"
)

// Machine is the measured rates of a machine, as "trireme bench machine" stores them. Compute and Transports may lack
// entries that were not measured.
type Machine struct {
	Schema    string `json:"schema"`
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	Date      string `json:"date"`
	Load      string `json:"load,omitempty"` // other work while it was measured
	// Compute is by type of parameters: float32, bfloat16.
	Compute map[string]Compute `json:"compute"`
	// Memory is bytes per second read and written by copies with 1, 2, ... threads at once.
	Memory []float64 `json:"memory_bytes_per_second"`
	// Transports are by name: shm, tcp.
	Transports map[string]Transport `json:"transports"`
	Disk       Disk                 `json:"disk"`
}

// Compute is how fast a processor computes a training step in one type.
type Compute struct {
	One Rates `json:"one_thread"`
	All Rates `json:"all_cores"` // one job with a thread per core
	// Beside is the speed of a job of one thread while every other core runs one, over its speed alone.
	Beside float64 `json:"beside"`
}

// Rates are of one rank: FLOP/s of matrix products, and bytes per second of the operands of other operations, those
// that are parameters, gradients and optimizer state apart (Work).
type Rates struct {
	Products float64 `json:"products_flops"`
	Operands float64 `json:"operand_bytes_per_second"`
	State    float64 `json:"state_bytes_per_second"`
}

// Transport is the cost of collectives among Ranks ranks of a host, by operation: all_gather, reduce_scatter,
// all_reduce.
type Transport struct {
	Ranks int             `json:"ranks"`
	Ops   map[string]Link `json:"operations"`
}

// Link is a latency in seconds and a bandwidth in bytes per second that one rank sends.
type Link struct {
	Latency   float64 `json:"latency_seconds"`
	Bandwidth float64 `json:"bytes_per_second"`
}

// FitLink returns the link of a collective from its time in seconds for two sizes in bytes that a rank sends.
func FitLink(small, large, secondsSmall, secondsLarge float64) Link {
	bandwidth := (large - small) / max(secondsLarge-secondsSmall, 1e-12)
	return Link{max(0, secondsSmall-small/bandwidth), bandwidth}
}

// Disk is in bytes per second. Writes include the time until the data is on the disk.
type Disk struct {
	Write float64 `json:"write_bytes_per_second"`
	Read  float64 `json:"read_bytes_per_second"` // of a file just written, from the page cache if it fits
}

// MachineSchema is the schema of stored rates.
const MachineSchema = "trireme.bench.machine/2"

// MachinePath is the file with this machine's rates, in the user's cache directory.
func MachinePath() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("planner: the directory of measured rates: %w", err)
	}
	return filepath.Join(dir, "trireme", "machine.json"), nil
}

// LoadMachine reads this machine's rates; nil if they were not measured.
func LoadMachine() (*Machine, error) {
	path, err := MachinePath()
	if err != nil {
		return nil, nil //nolint:nilerr // without a cache directory there are no rates
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := ParseMachine(b)
	if err != nil {
		return nil, fault.Try(fmt.Errorf("%s: %w", path, err), "trireme bench machine, which replaces it")
	}
	return m, nil
}

// ParseMachine reads stored rates and checks that they are positive.
func ParseMachine(b []byte) (*Machine, error) {
	var m Machine
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, err
	}
	if m.Schema != MachineSchema {
		return nil, fmt.Errorf("the rates are of schema %q, not %s", m.Schema, MachineSchema)
	}
	positive := func(name string, v float64) error {
		if !(v > 0) || math.IsInf(v, 0) {
			return fmt.Errorf("%s is %v: it must be positive", name, v)
		}
		return nil
	}
	err := positive("cores", float64(m.Cores))
	for dt, c := range m.Compute {
		for _, r := range []Rates{c.One, c.All} {
			err = errors.Join(err, positive(dt+" products", r.Products), positive(dt+" operands", r.Operands), positive(dt+" state", r.State))
		}
		err = errors.Join(err, positive(dt+" beside", c.Beside))
	}
	for name, t := range m.Transports {
		for op, l := range t.Ops {
			err = errors.Join(err, positive(name+" "+op, l.Bandwidth))
			if !(l.Latency >= 0) {
				err = errors.Join(err, fmt.Errorf("%s %s: the latency is %v", name, op, l.Latency))
			}
		}
	}
	return &m, err
}

// Store writes the rates to MachinePath.
func (m Machine) Store() (path string, err error) {
	if path, err = MachinePath(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return "", err
	}
	return path, durable.WriteFile(path, append(b, '\n'))
}
