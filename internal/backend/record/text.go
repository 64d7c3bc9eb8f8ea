package record

import (
	"fmt"
	"reflect"
	"strings"
)

// parameter is a name and mark in a signature; see Backend.do.
type parameter struct {
	name string
	mark byte
}

// signatures are parsed signatures.
type signatures map[string]signature

type signature struct {
	name   string
	params []parameter
}

// parse splits a signature.
func (s signatures) parse(text string) (name string, ps []parameter) {
	known, ok := s[text]
	if !ok {
		known.name, known.params = parse(text)
		s[text] = known
	}
	return known.name, known.params
}

func parse(signature string) (name string, ps []parameter) {
	words := strings.Fields(signature)
	for _, w := range words[1:] {
		p := parameter{name: w}
		if last := len(w) - 1; strings.IndexByte("=+?", w[last]) >= 0 {
			p.name, p.mark = w[:last], w[last]
		}
		ps = append(ps, p)
	}
	return words[0], ps
}

// String formats the program, a line per buffer and operation. Equal texts are equal programs. A
// tensor is %buffer.version+offset, its type and shape, and its row stride if strided: %3.2+16
// f32[4 8]/32. +shard*64 is a coordinate times a length.
func (p *Program) String() string {
	var out strings.Builder
	for i, b := range p.Buffers {
		fmt.Fprintf(&out, "%%%d %s %v %d\n", i, b.Kind, b.Cat, b.Size)
	}
	for i := range p.Ops {
		p.Ops[i].write(&out, (*View).write)
	}
	return out.String()
}

// write formats op. view formats a view and the version that op reads or creates.
func (op *Op) write(out *strings.Builder, view func(v *View, out *strings.Builder, version int)) {
	out.WriteString(op.Name)
	if op.Group != "" {
		out.WriteString(" " + op.Group)
	}
	list := func(writes bool) {
		for i := range op.Args {
			a := &op.Args[i]
			for j := range a.Views {
				if v := &a.Views[j]; v.Buffer >= 0 && (writes && a.Write || !writes && a.Read) {
					version := v.Reads
					if writes {
						version = v.Writes
					}
					fmt.Fprintf(out, " %s:", a.Name)
					view(v, out, version)
				}
			}
		}
	}
	list(true)
	out.WriteString(" <-")
	list(false)
	for i := range op.Args {
		if a := &op.Args[i]; a.Attr != nil {
			fmt.Fprintf(out, " %s=", a.Name)
			if reflect.TypeOf(a.Attr).Kind() == reflect.Struct {
				fmt.Fprintf(out, "%T", a.Attr)
			}
			fmt.Fprintf(out, "%+v", a.Attr)
		}
	}
	out.WriteByte('\n')
}

func (v *View) write(out *strings.Builder, version int) {
	fmt.Fprintf(out, "%%%d.%d", v.Buffer, version)
	v.writeRange(out)
}

// writeRange formats all but the buffer.
func (v *View) writeRange(out *strings.Builder) {
	if v.Offset > 0 {
		fmt.Fprintf(out, "+%d", v.Offset)
	}
	if v.Axis != "" {
		fmt.Fprintf(out, "+%s*%d", v.Axis, v.Elems)
	}
	fmt.Fprintf(out, " %v%v", v.DType, v.Shape)
	if n := len(v.Shape); n > 0 && v.RowStride != v.Shape[n-1] {
		fmt.Fprintf(out, "/%d", v.RowStride)
	}
}

// Diff is the first line, with its number, in which two texts differ; "" if equal.
func Diff(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(as), len(bs)) {
		var x, y string
		if i < len(as) {
			x = as[i]
		}
		if i < len(bs) {
			y = bs[i]
		}
		if x != y || i >= len(as) || i >= len(bs) {
			return fmt.Sprintf("line %d:\n- %s\n+ %s", i+1, x, y)
		}
	}
	return ""
}
