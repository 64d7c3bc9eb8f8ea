package foreign

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"trireme/internal/conf"
)

// Format is whose file it is.
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

// Formats lists them.
func Formats() []string {
	names := []string{string(Native)}
	for _, f := range formats() {
		names = append(names, string(f.name))
	}
	return names
}

// Options is what is known beside the file.
type Options struct {
	// Mode is --mode: ddp, fsdp, deepspeed, or empty. It chooses where the file names no
	// strategy; a file that names another is an error.
	Mode string
	// Format is whose file it is; empty: its keys tell.
	Format Format
	// Ranks of the world, where it is known; 0: as the file says, or one.
	Ranks int
	// Launched: another launcher started the ranks.
	Launched bool
	// Planned: nothing is started, so that ranks need not be of this machine.
	PlanOnly bool
	// Apart: the device has a memory of its own, so that what is offloaded to the host leaves it.
	DeviceMemory bool
	// Model, Data and OutputDir: they are given over the file's.
	Model, Data, OutputDir bool
}

// File is a configuration file that has been read.
type File struct {
	Name   string
	Text   string // of the file, as it was read; empty of a native one
	Format Format
	Source conf.Source
	// Ranks is how many worker processes the file asks for on this machine; 0: it does not say.
	Ranks int
	// Notes are the settings that are ignored or changed.
	Notes []Note
	// LayerClasses are the Python classes that the file has for the model's layers.
	LayerClasses []LayerClass
	// Assignments are what Source assigns. Those of Fixed are training arguments that the file
	// settles: they cannot be given otherwise.
	Assignments, Fixed []conf.Assignment

	defaults []conf.Assignment
}

// ByDefault reports whether where, the origin of a key's value, is the program's default and not
// the file itself.
func (f *File) ByDefault(key, where string) bool {
	return slices.ContainsFunc(f.defaults, func(a conf.Assignment) bool { return a.Path == key && a.Where == where })
}

// Note is a setting that is ignored, or changed. One that is obeyed, and one that asks for
// nothing or for what is done in any case, has none.
type Note struct {
	Where  string // file:line:col
	Key    string // training.use_amp
	Value  string
	Effect string // has no effect: ..., becomes ...
}

// Read reads a file's text. An error is a conf.Errors: everything that is wrong with it.
func Read(name, text string, o Options) (*File, error) {
	if strings.HasPrefix(firstLine(text), "[") && strings.Contains(text, "=") {
		if _, err := conf.Parse(name, text); err != nil {
			return nil, conf.Errors{{Where: name, Text: "is TOML, as torchtitan's job files are, and not read. try: a YAML file with this program's keys"}}
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

// file is what has been read.
func (r *reader) file() *File {
	return &File{
		Name: r.name, Format: r.format.name, Source: conf.Assign(r.all()), Ranks: r.ranks, Notes: r.notes, LayerClasses: r.classes, Assignments: r.all(), Fixed: r.fixed, defaults: r.defaults,
	}
}

// firstLine is the first that is neither empty nor a comment.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return line
		}
	}
	return ""
}

// readNative leaves a file of this program's own keys to conf.
func readNative(name, text string, doc conf.Value, o Options) (*File, error) {
	file := &File{Name: name, Format: Native, Source: conf.Text(name, text)}
	strategy, ok := doc.Find("parallel", "strategy")
	if whole, err := isReplicated(strategy.Text); ok && err == nil && o.Mode == "ddp" && !whole {
		return nil, conf.Errors{{Where: strategy.Where, Path: "parallel.strategy", Text: fmt.Sprintf("is %s, and --mode says ddp, which is no_shard. try: one of them", strategy.Text)}}
	}
	return file, nil
}

// Warning lists the notes for the user, one a line; empty where there is none.
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
