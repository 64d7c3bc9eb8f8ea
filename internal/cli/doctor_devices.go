package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"trireme/internal/nvml"
	"trireme/internal/pjrt/plugin"
)

// devicesReport has the accelerators of this machine and the software for them.
type devicesReport struct {
	Schema  string         `json:"schema"`
	Driver  *driverReport  `json:"driver"` // null without an NVIDIA driver
	Cards   []cardReport   `json:"cards"`
	Plugins []pluginReport `json:"plugins"`
	Looked  []string       `json:"looked"`
	Notes   []string       `json:"notes"`
	Usable  []string       `json:"usable"`  // values of --device that need no more than is here
	Install []string       `json:"install"` // commands that install what the cards need

	unread bool // the driver or its library failed, as a note says
}

type driverReport struct {
	Version string `json:"version"`
	CUDA    string `json:"cuda"` // the newest that it runs
}

type cardReport struct {
	Index   int    `json:"index"`
	Name    string `json:"name"`
	UUID    string `json:"uuid"`
	BusID   string `json:"bus_id"`
	Memory  int64  `json:"memory"` // bytes
	Compute string `json:"compute_capability"`
	Visible bool   `json:"visible"` // to programs, by CUDA_VISIBLE_DEVICES
}

type pluginReport struct {
	Kind  string `json:"kind"`
	File  string `json:"file"`
	From  string `json:"from"`
	Error string `json:"error,omitempty"` // why it cannot be loaded
	pluginFacts
	// For CUDA:
	Libraries []libraryReport `json:"libraries,omitempty"`
	Missing   []missingReport `json:"missing,omitempty"`
	Data      string          `json:"cuda_data,omitempty"` // directory with ptxas and libdevice
}

// pluginFacts are the facts that a loaded plug-in reports.
type pluginFacts struct {
	API       string `json:"api,omitempty"`
	CUDA      string `json:"cuda,omitempty"`
	StableHLO string `json:"stablehlo,omitempty"`
}

type libraryReport struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	File    string `json:"file"`
}

type missingReport struct {
	Name     string `json:"name"`
	Use      string `json:"use"`
	Required bool   `json:"required"`
	Pip      string `json:"pip"`
	Apt      string `json:"apt"`
}

type doctorDevicesFlags struct {
	plugin string
	json   bool
	load   bool
}

func newDoctorDevices() *cobra.Command {
	f := &doctorDevicesFlags{}
	c := &cobra.Command{
		Use:   "devices",
		Short: "list GPUs, the plug-ins for --device, and missing libraries",
		Long: `List the NVIDIA GPUs of this machine, the PJRT plug-ins that --device cuda, tpu and xla can use, and
for CUDA the libraries that they load; then what is missing, with the commands that install it. A
machine without GPUs is no error.`,
		Example: `  trireme doctor devices
  trireme doctor devices --plugin xla_cuda_plugin.so
  trireme doctor devices --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	c.Flags().StringVar(&f.plugin, "plugin", "", "examine this `FILE` instead of those that are found")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	c.Flags().BoolVar(&f.load, "load", false, "load --plugin and print its facts")
	_ = c.Flags().MarkHidden("load") // cannot fail: the flag exists
	return c
}

func (f *doctorDevicesFlags) run(c *cobra.Command) error {
	s := plugin.Machine()
	if f.load {
		facts, err := loadPlugin(s, f.plugin)
		if err != nil {
			return err
		}
		return writeJSON(c.OutOrStdout(), facts)
	}
	r, err := f.examine(c.Context(), s)
	if err != nil {
		return err
	}
	if f.json {
		return writeJSON(c.OutOrStdout(), r)
	}
	return r.print(c.OutOrStdout())
}

func (f *doctorDevicesFlags) examine(ctx context.Context, s plugin.System) (*devicesReport, error) {
	r := &devicesReport{Schema: "trireme.doctor.devices/1", Cards: []cardReport{}, Plugins: []pluginReport{}, Looked: []string{}, Notes: []string{}, Usable: []string{}, Install: []string{}}
	newest := r.readCards(s)
	files, looked := plugin.List(s)
	r.Looked = append(r.Looked, looked...)
	if f.plugin != "" {
		found, err := plugin.Find(s, plugin.Other, f.plugin, newest)
		if err != nil {
			return nil, &Exit{CodeUsage, err}
		}
		files, r.Looked = []plugin.File{found.File}, []string{}
	}
	cuda := false
	for _, file := range files {
		found, err := plugin.Find(s, plugin.Other, file.Path, newest)
		if err != nil {
			r.Notes = append(r.Notes, textOf(err)) // it has just been deleted
			continue
		}
		p := describe(found)
		p.From = file.From
		if p.pluginFacts, err = probe(ctx, file.Path); err != nil {
			p.Error = err.Error()
		}
		r.Notes = append(r.Notes, found.Notes...)
		cuda = cuda || found.Kind == plugin.CUDA && p.Error == "" && found.CheckLibraries() == nil
		r.Plugins = append(r.Plugins, p)
	}
	switch {
	case len(r.Cards) > 0 && cuda:
		r.Usable = append(r.Usable, "cuda")
	case len(r.Cards) > 0:
		r.Install = append(r.Install, r.remedy(newest))
	}
	return r, nil
}

// readCards reads the driver and the cards, and returns the newest major version of CUDA that the driver
// runs, 0 if unknown.
func (r *devicesReport) readCards(s plugin.System) int {
	l, err := nvml.Open("")
	r.unread = err != nil && !errors.Is(err, nvml.ErrNoDriver)
	if errors.Is(err, nvml.ErrNoDriver) {
		if r.unread = nvml.HasCUDA(); r.unread {
			r.Notes = append(r.Notes, "the CUDA driver is installed, but "+nvml.File+" is not: cards are not listed")
		}
		return 0
	}
	if err != nil {
		r.Notes = append(r.Notes, err.Error())
		return 0
	}
	defer l.Close()
	version, cuda, err := l.Driver()
	if r.unread = err != nil; r.unread {
		r.Notes = append(r.Notes, err.Error())
		return 0
	}
	r.Driver = &driverReport{version, cuda.String()}
	cards, err := l.Cards()
	if err != nil {
		r.Notes = append(r.Notes, err.Error())
	}
	value, set := s.LookupEnv("CUDA_VISIBLE_DEVICES")
	visible := map[int]bool{}
	for _, c := range nvml.Visible(cards, value, set) {
		visible[c.Index] = true
	}
	for _, c := range cards {
		r.Cards = append(r.Cards, cardReport{c.Index, c.Name, c.UUID, c.BusID, c.Memory, fmt.Sprintf("%d.%d", c.Major, c.Minor), visible[c.Index]})
	}
	return cuda.Major
}

// remedy returns the command that makes the cards usable: libraries for the plug-in, or all of it.
func (r *devicesReport) remedy(newest int) string {
	for _, p := range r.Plugins {
		if pip, _ := p.packages(true); p.Kind == string(plugin.CUDA) && p.Error == "" && pip != "" {
			return "pip install " + pip
		}
	}
	return plugin.Install(plugin.CUDA, newest)
}

// packages returns the packages of missing libraries that are required, or of the others.
func (p pluginReport) packages(required bool) (pip, apt string) {
	var a, b []string
	for _, m := range p.Missing {
		if m.Required == required {
			a, b = append(a, strings.Fields(m.Pip)...), append(b, m.Apt)
		}
	}
	unique := func(names []string) string {
		slices.Sort(names)
		return strings.Join(slices.Compact(names), " ")
	}
	return unique(a), unique(b)
}

func describe(f plugin.Found) pluginReport {
	p := pluginReport{Kind: string(f.Kind), File: f.Path, From: f.From, Data: f.Data}
	for _, l := range f.Libraries {
		p.Libraries = append(p.Libraries, libraryReport{l.Name, l.Version, l.File})
	}
	for _, m := range f.Missing {
		p.Missing = append(p.Missing, missingReport{m.Name, m.Use, m.Required, m.Pip, m.Apt})
	}
	return p
}
