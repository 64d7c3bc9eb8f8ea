package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// String formats r as Program.String does, without versions. A loop is
//
//	loop 12 {
//	$0 slice %3+64 step -32 float32[32] read
//	$1 carry float32[8] from %5+8 next $2 to %6
//	stream 7 9 11
//	Add dst:$2 float32[8] <- a:$1 float32[8] b:$0 float32[8]
//	}
//
// with its locals, random streams and body. A local is $number in the body.
func (r *Rolled) String() string {
	var out strings.Builder
	for i, b := range r.Buffers {
		kind := string(b.Kind)
		if n := r.Stacked[i]; n > 0 {
			kind = fmt.Sprintf("stack of %d", n)
		}
		fmt.Fprintf(&out, "%%%d %s %v %d\n", i, kind, b.Cat, b.Size)
	}
	for _, n := range r.Nodes {
		if n.Loop == nil {
			n.Op.write(&out, func(v *View, out *strings.Builder, _ int) {
				fmt.Fprintf(out, "%%%d", v.Buffer)
				v.writeRange(out)
			})
			continue
		}
		n.Loop.write(&out)
	}
	return out.String()
}

func (l *Loop) write(out *strings.Builder) {
	fmt.Fprintf(out, "loop %d {\n", l.Count)
	for i := range l.Locals {
		fmt.Fprintf(out, "$%d ", i)
		l.Locals[i].write(out)
	}
	for _, first := range slices.Sorted(maps.Keys(l.Streams)) {
		out.WriteString("stream")
		for _, s := range l.Streams[first] {
			fmt.Fprintf(out, " %d", s)
		}
		out.WriteByte('\n')
	}
	for i := range l.Body {
		l.Body[i].write(out, func(v *View, out *strings.Builder, _ int) {
			fmt.Fprintf(out, "$%d", v.Buffer)
			v.writeRange(out)
		})
	}
	out.WriteString("}\n")
}

func (x *Local) write(out *strings.Builder) {
	fmt.Fprintf(out, "%s ", x.Kind)
	switch x.Kind {
	case Whole:
		fmt.Fprintf(out, "%%%d ", x.Buffer)
	case Slice:
		Position{x.Buffer, x.Start}.write(out)
		fmt.Fprintf(out, " step %d ", x.Stride)
	}
	fmt.Fprintf(out, "%v[%d]", x.DType, x.Elems)
	if x.Kind == Carry {
		if x.Init.Buffer >= 0 {
			out.WriteString(" from ")
			x.Init.write(out)
		}
		fmt.Fprintf(out, " next $%d", x.Next)
		if x.Last.Buffer >= 0 {
			out.WriteString(" to ")
			x.Last.write(out)
		}
	}
	if x.Read {
		out.WriteString(" read")
	}
	if x.Write {
		out.WriteString(" write")
	}
	out.WriteByte('\n')
}

func (p Position) write(out *strings.Builder) {
	fmt.Fprintf(out, "%%%d", p.Buffer)
	if p.Start > 0 {
		fmt.Fprintf(out, "+%d", p.Start)
	}
}
