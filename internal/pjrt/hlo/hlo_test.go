package hlo

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// field appends a number or bytes.
func field(b []byte, n protowire.Number, v any) []byte {
	switch v := v.(type) {
	case int:
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v))
	case string:
		return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), v)
	}
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v.([]byte))
}

// line is an instruction of a test: its result has that many float32s.
type line struct {
	id, elems, operand, calls int
	opcode, config            string
}

// build returns a module whose computations have their lines in reverse, and the schedule the order.
func build(entry int, computations map[int][]line) string {
	var m, schedule []byte
	for id, lines := range computations {
		c, ids := field(nil, computationID, id), []byte{}
		for _, l := range lines {
			ids = protowire.AppendVarint(ids, uint64(l.id))
		}
		for _, l := range slices.Backward(lines) {
			i := field(nil, instructionName, fmt.Sprint(l.opcode, l.id))
			i = field(i, instructionOpcode, l.opcode)
			i = field(i, instructionID, l.id)
			i = field(i, instructionConfig, l.config)
			i = field(i, instructionShape, field(field(nil, shapeType, 11), shapeDimensions, protowire.AppendVarint(nil, uint64(l.elems))))
			if l.operand != 0 {
				i = field(i, instructionOperands, l.operand)
			}
			if l.calls != 0 {
				i = field(i, instructionCalled, l.calls)
			}
			c = field(c, computationInstructions, i)
		}
		m = field(m, moduleComputations, c)
		entryOf := field(field(nil, entryKey, id), entryValue, field(nil, sequenceIDs, ids))
		schedule = field(schedule, scheduleSequences, entryOf)
	}
	m = field(m, moduleEntry, entry)
	return string(field(nil, configuredModule, field(m, moduleSchedule, schedule)))
}

var sample = map[int][]line{
	1: { // the entry: an exposed gather, a loop, an all-reduce without a start
		{id: 10, elems: 8, opcode: "parameter"},
		{id: 11, elems: 64, operand: 10, opcode: "all-gather-start"},
		{id: 12, elems: 64, operand: 11, opcode: "all-gather-done"},
		{id: 13, elems: 1, operand: 12, calls: 2, opcode: "while", config: `{"known_trip_count":{"n":"5"}}`},
		{id: 14, elems: 4, operand: 13, opcode: "all-reduce"},
	},
	2: { // a loop: a reduce-scatter behind a product in a fusion
		{id: 20, elems: 80, opcode: "parameter"},
		{id: 21, elems: 10, operand: 20, calls: 3, opcode: "async-start"},
		{id: 22, elems: 7, operand: 20, calls: 4, opcode: "fusion"},
		{id: 23, elems: 10, operand: 21, opcode: "async-done"},
		{id: 24, elems: 7, operand: 20, calls: 4, opcode: "fusion"},
	},
	3: {{id: 30, elems: 80, opcode: "parameter"}, {id: 31, elems: 10, operand: 30, opcode: "reduce-scatter"}},
	4: {{id: 40, elems: 80, opcode: "parameter"}, {id: 41, elems: 7, operand: 40, opcode: "dot"}},
}

func TestCollectives(t *testing.T) {
	got, err := Collectives(build(1, sample))
	if err != nil {
		t.Fatal(err)
	}
	want := []Collective{
		{Op: "all-gather", Name: "all-gather-start11", Bytes: 256, Runs: 1},
		{Op: "reduce-scatter", Name: "async-start21", Bytes: 320, Runs: 5, Loop: true, Products: 1},
		{Op: "all-reduce", Name: "all-reduce14", Bytes: 16, Runs: 1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if h := Hidden(got); h != 1600.0/1872 || Hidden(nil) != 1 {
		t.Error(h, Hidden(nil))
	}
}

func TestNoModule(t *testing.T) {
	for _, text := range []string{"", "HloModule m", string(field(nil, configuredModule, field(nil, moduleEntry, 1)))} {
		if _, err := Collectives(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func FuzzCollectives(f *testing.F) {
	f.Add(build(1, sample))
	f.Add(build(2, map[int][]line{2: {{id: 1, calls: 2, opcode: "call"}}})) // itself
	f.Fuzz(func(t *testing.T, text string) {
		cs, err := Collectives(text)
		if h := Hidden(cs); err == nil && !(h >= 0 && h <= 1) {
			t.Fatalf("share %v of %+v", h, cs)
		}
	})
}
