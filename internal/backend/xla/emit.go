package xla

import (
	"context"
	"fmt"
	"strings"

	"trireme/internal/backend/record"
	"trireme/tensor"
)

// module is a program in StableHLO, the same text on every rank.
type module struct {
	text    string
	params  []param
	outputs []param
}

// param is a parameter or an output of a module.
type param struct {
	value
	from   source
	number int    // of the buffer, the input or the result
	axis   string // of a coordinate
}

type source uint8

const (
	ofBuffer     source = iota // a persistent buffer, flat
	ofInput                    // an upload, flat
	ofCoordinate               // this rank's coordinate on an axis
	ofResult                   // a result
)

// emission is a program being emitted.
type emission struct {
	*emitter
	p      *record.Rolled
	bufs   []*tensor.Buffer // by number, outside loops
	locals []*tensor.Buffer // by number, within a loop
	inputs []value          // uploads that no operation has taken yet
	result []value
}

// emit writes p for a target. groups are the rank lists of all groups with a name.
func emit(program *record.Program, to target, groups map[string][][]int, replicas int) (m *module, err error) {
	p := program.Roll()
	x := &emission{emitter: newEmitter(to, groups), p: p, bufs: make([]*tensor.Buffer, len(p.Buffers))}
	m = &module{}
	argument := func(e elem, dims []int, from source, number int, axis string) value {
		v := value{fmt.Sprintf("%%arg%d", len(m.params)), e, dims}
		m.params = append(m.params, param{v, from, number, axis})
		return v
	}
	alias := map[int]int{} // of a parameter's index, the output that takes its memory
	outputs := 0
	for i, b := range p.Buffers {
		n := b.Size / b.DType.Size()
		x.bufs[i] = x.buffer(b.Cat, b.DType, n)
		if b.Kind == record.State || b.Kind == record.Constant {
			if b.Kind == record.State {
				alias[len(m.params)] = outputs
			}
			v := argument(elems[b.DType], []int{n}, ofBuffer, p.Bound[i], "")
			x.buffers[x.bufs[i]].write(flatRegion(0, n), v)
		}
		if b.Kind.Returned() {
			outputs++
		}
	}
	for i, u := range program.Uploads() {
		x.inputs = append(x.inputs, argument(elems[u.DType], []int{u.Shape.Elems()}, ofInput, i, ""))
	}
	for _, axis := range program.Axes() {
		x.coords[axis] = argument("i32", nil, ofCoordinate, 0, axis)
	}
	defer func() {
		if r := recover(); r != nil {
			if s, ok := r.(string); ok {
				err = fmt.Errorf("%s", s)
				return
			}
			panic(r)
		}
	}()
	for i, n := range p.Nodes {
		if n.Loop != nil {
			err = x.loop(n.Loop)
		} else {
			err = x.run(n.Op)
		}
		if err != nil {
			return nil, fmt.Errorf("xla: node %d: %w", i, err)
		}
	}
	for i, b := range p.Buffers {
		if b.Kind.Returned() {
			c := x.buffers[x.bufs[i]]
			m.outputs = append(m.outputs, param{value: x.number(x.consolidate(c), b.DType), from: ofBuffer, number: p.Bound[i]})
		}
	}
	for i, v := range x.result {
		m.outputs = append(m.outputs, param{value: v, from: ofResult, number: i})
	}
	m.text = m.format(x.out.String(), alias, replicas)
	return m, nil
}

// format writes the module around a body.
func (m *module) format(body string, alias map[int]int, replicas int) string {
	params, vs := make([]string, len(m.params)), make([]value, len(m.outputs))
	for i, p := range m.params {
		params[i] = p.id + ": " + p.typ()
		if out, ok := alias[i]; ok {
			params[i] += fmt.Sprintf(" {tf.aliasing_output = %d : i32}", out)
		}
	}
	for i, o := range m.outputs {
		vs[i] = o.value
	}
	var b strings.Builder
	fmt.Fprintf(&b, "module @step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = %d : i32} {\n", replicas)
	fmt.Fprintf(&b, "  func.func public @main(%s) -> (%s) {\n%s", strings.Join(params, ", "), types(vs), body)
	fmt.Fprintf(&b, "    \"func.return\"(%s) : (%s) -> ()\n  }\n}\n", ids(vs), types(vs))
	return b.String()
}

func (x *emission) Backend() any { return x.emitter }

func (x *emission) Group(name string) (record.Collectives, error) {
	ranks := x.groups[name]
	if ranks == nil {
		return nil, fmt.Errorf("unknown group %s", name)
	}
	return &group{x.emitter, ranks}, nil
}

func (x *emission) Upload(dst *tensor.Tensor) error {
	v := x.inputs[0]
	x.inputs = x.inputs[1:]
	x.store(dst, v)
	return nil
}

func (x *emission) Result(src *tensor.Tensor) error {
	x.result = append(x.result, x.load(src))
	return nil
}

func (x *emission) Tensor(v *record.View) *tensor.Tensor {
	if x.locals != nil {
		return v.Tensor(x.locals[v.Buffer], 0)
	}
	return v.Tensor(x.bufs[v.Buffer], 0)
}

func (x *emission) run(op *record.Op) error {
	if err := op.Run(context.Background(), x); err != nil {
		return fmt.Errorf("%s: %w", op.Name, err)
	}
	return nil
}

// coordinate is this rank's coordinate on an axis.
func (e *emitter) coordinate(axis string) value {
	v, ok := e.coords[axis]
	if !ok {
		panic("xla: a program without a coordinate on " + axis)
	}
	return v
}
