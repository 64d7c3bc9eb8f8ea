package record

import "trireme/tensor"

// usage describes the reads and writes of a buffer.
type usage struct {
	versions versions
	initial  bool // read before written
	written  bool
}

// analyze numbers the versions that operations read and write, and finds the kind of each buffer.
func (s *recorder) analyze(last bool) *Program {
	uses := make([]usage, len(s.order))
	for i := range s.ops {
		op := &s.ops[i]
		// Reads first: a result may overwrite an operand.
		op.each(func(a *Arg, v *View) {
			if !a.Read {
				return
			}
			u := &uses[v.Buffer]
			version, written := u.versions.read(v)
			if v.Reads = version; written {
				return
			}
			if s.order[v.Buffer].temporary && !a.Write {
				fail(op.Name, "%s has uninitialized elements", a.Name)
			}
			u.initial = true
		})
		op.each(func(a *Arg, v *View) {
			if a.Write {
				u := &uses[v.Buffer]
				u.written = u.written || op.Name != barrier
				v.Writes = u.versions.write(v)
			}
		})
	}
	p := &Program{Ops: s.ops}
	for i, t := range s.order {
		b, u := Buffer{Kind: Scratch, Cat: t.cat, Size: t.size, DType: t.dtype}, &uses[i]
		switch {
		case t.temporary:
			b.Kind = Temporary
		case u.initial && u.written:
			b.Kind = State
		case u.initial:
			b.Kind = Constant
		case last:
		case u.allWritten(t.size):
			b.Kind = Output
		default:
			b.Kind = State // the rest of it keeps its contents
		}
		p.Buffers = append(p.Buffers, b)
	}
	return p
}

// each calls f for each view of a buffer.
func (op *Op) each(f func(a *Arg, v *View)) {
	for i := range op.Args {
		a := &op.Args[i]
		for j := range a.Views {
			if v := &a.Views[j]; v.Buffer >= 0 {
				f(a, v)
			}
		}
	}
}

// allWritten reports whether every byte of the buffer is written, on every rank.
func (u *usage) allWritten(size int) bool {
	_, written := u.versions.read(&View{DType: tensor.U8, Shape: tensor.Shape{size}, RowStride: size})
	return written
}
