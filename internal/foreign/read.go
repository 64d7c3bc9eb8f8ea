package foreign

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"trireme/internal/conf"
)

// Format is the format of a file.
type Format string

// The formats.
const (
	Native          Format = "native"
	DDP             Format = "ddp"
	FSDP            Format = "fsdp"
	FreeTransformer Format = "free_transformer"
	DeepSpeed       Format = "deepspeed"
	Accelerate      Format = "accelerate"
)

// Formats lists the formats.
func Formats() []string {
	names := []string{string(Native)}
	for _, f := range formats() {
		names = append(names, string(f.name))
	}
	return names
}

// Options are settings besides the file.
type Options struct {
	// Mode is --mode: ddp, fsdp, deepspeed, or empty. It sets the strategy if the file does not; a
	// file with another strategy is an error.
	Mode string
	// Format is the file's format; empty: detect it from the keys.
	Format Format
	// Ranks is the number of ranks if known; 0: from the file, or 1.
	Ranks int
	// Launched: another launcher started the ranks.
	Launched bool
	// PlanOnly: ranks are only planned, and not limited to this machine.
	PlanOnly bool
	// DeviceMemory: the device has its own memory, so offloading to the host has an effect.
	DeviceMemory bool
	// Model, Data and OutputDir: set by another source.
	Model, Data, OutputDir bool
}

// File is a parsed configuration file.
type File struct {
	Name   string
	Text   string // of the file, unchanged; empty for Native
	Format Format
	Source conf.Source
	// Ranks is the file's number of worker processes on this machine; 0: not set.
	Ranks int
	// Notes are the ignored or changed settings.
	Notes []Note
	// LayerClasses are the layer classes in the file.
	LayerClasses []LayerClass
	// Assignments are those of Source.
	Assignments []conf.Assignment
	// Fixed are those that no other source may contradict.
	Fixed []Fixed

	defaults []conf.Assignment
}

// Fixed is an assignment with the file's key: optimizer.params.lr.
type Fixed struct {
	conf.Assignment
	Key string
}

// ByDefault reports whether where, the origin of a key, is a default of the file's program.
func (f *File) ByDefault(key, where string) bool {
	return slices.ContainsFunc(f.defaults, func(a conf.Assignment) bool { return a.Path == key && a.Where == where })
}

// Note is an ignored or changed setting.
type Note struct {
	Where  string // file:line:col
	Key    string // training.use_amp
	Value  string
	Effect string // has no effect: ..., becomes ...
}

// Read parses a file's text. An error is a conf.Errors with all problems.
func Read(name, text string, o Options) (*File, error) {
	if strings.HasPrefix(firstLine(text), "[") && strings.Contains(text, "=") {
		if _, err := conf.Parse(name, text); err != nil {
			return nil, conf.Errors{{Where: name, Text: "is TOML, as used by torchtitan, which is not supported. try: a YAML file with Trireme's keys"}}
		}
	}
	doc, unread := conf.Parse(name, stripComments(text))
	if unread != nil && len(doc.Keys) == 0 {
		return nil, unread
	}
	f, err := detect(name, doc, o)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return readNative(name, text, doc, o)
	}
	r := &reader{name: name, options: o, format: f, doc: f.grouped(doc)}
	errors.As(unread, &r.problems)
	f.read(r)
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	file := r.file()
	file.Text = text
	return file, nil
}

func (r *reader) file() *File {
	return &File{
		Name: r.name, Format: r.format.name, Source: conf.Assign(r.all()), Ranks: r.ranks, Notes: r.notes, LayerClasses: r.classes, Assignments: r.all(), Fixed: r.fixed, defaults: r.defaults,
	}
}

// firstLine returns the first line that is neither empty nor a comment.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return line
		}
	}
	return ""
}

// readNative leaves a file with this program's keys to conf.
func readNative(name, text string, doc conf.Value, o Options) (*File, error) {
	file := &File{Name: name, Format: Native, Source: conf.Text(name, text)}
	strategy, ok := doc.Find("parallel", "strategy")
	if whole, err := isReplicated(strategy.Text); ok && err == nil && o.Mode == "ddp" && !whole {
		return nil, conf.Errors{{Where: strategy.Where, Path: "parallel.strategy", Text: fmt.Sprintf("is %s, but --mode ddp means no_shard. try: one of them", strategy.Text)}}
	}
	return file, nil
}

// Warning formats the notes, one per line.
func (f *File) Warning() string {
	if len(f.Notes) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "ignored or changed settings in %s:\n", f.Name)
	for _, n := range f.Notes {
		fmt.Fprintf(&b, "  %s: %s: %s %s\n", n.Where, n.Key, n.Value, n.Effect)
	}
	return b.String()
}
