// Package arm writes assembly for arm64, which avo does not support: functions of virtual registers, with the arguments
// of a Go signature. Vector instructions that the Go assembler lacks are emitted as words (ops.go).
//
// Registers are allocated by a linear scan. A register lives from its first to its last instruction, and through every
// loop that it enters from outside.
package arm

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/mmcloughlin/avo/gotypes"
)

// Reg is a virtual register: 128 bits or, with general, 64 bits.
type Reg struct {
	id      int
	general bool
}

// Builder collects functions and constants of a file, and their declarations.
type Builder struct {
	asm, stubs bytes.Buffer
	consts     []uint64 // each twice in the table
	table      string
	f          *function
}

type function struct {
	name, doc, signature string
	types                *gotypes.Signature
	code                 []instruction
	registers            int
	consts               Reg // address of the table
}

// instruction is a line: its format takes the numbers of registers and other arguments. A word has the numbers of registers
// in its bits.
type instruction struct {
	format        string
	args          []any
	word          uint32
	at            []int // bit of each register of a word
	label, target string
}

// New begins a file. Constants are in a table of that name.
func New(table string) *Builder { return &Builder{table: table} }

// Begin begins a function.
func (b *Builder) Begin(name, signature, doc string) {
	types, err := gotypes.ParseSignature(signature)
	if err != nil {
		panic(err)
	}
	b.f = &function{name: name, doc: doc, signature: signature, types: types, consts: Reg{id: -1, general: true}}
}

// Asm makes a register an operand of avo's type, for generators that emit several instruction sets.
func (r Reg) Asm() string { return fmt.Sprint(r.id) }

func (b *Builder) register(general bool) Reg {
	b.f.registers++
	return Reg{b.f.registers, general}
}

// V returns a new vector register, G a new general one.
func (b *Builder) V() Reg { return b.register(false) }
func (b *Builder) G() Reg { return b.register(true) }

// Op emits a line. Registers in args are printed as numbers.
func (b *Builder) Op(format string, args ...any) {
	b.f.code = append(b.f.code, instruction{format: format, args: args})
}

// Label emits a label, Branch a branch to one.
func (b *Builder) Label(name string) {
	b.f.code = append(b.f.code, instruction{label: name})
}

func (b *Builder) Branch(label, format string, args ...any) {
	b.f.code = append(b.f.code, instruction{format: format + " " + label, args: args, target: label})
}

// Arg loads a parameter: a name, or a slice's name with ".base" or ".len".
func (b *Builder) Arg(name string) Reg {
	g := b.G()
	b.Op("MOVD "+b.Address(name)+", R%d", g)
	return g
}

// Address returns the operand of a parameter or, for "return N", of a result.
func (b *Builder) Address(name string) string {
	base, part, _ := bytes.Cut([]byte(name), []byte("."))
	c := b.f.types.Params().Lookup(string(base))
	var index int
	if n, _ := fmt.Sscanf(name, "return %d", &index); n == 1 {
		c = b.f.types.Results().At(index)
	}
	switch string(part) {
	case "base":
		c = c.Base()
	case "len":
		c = c.Len()
	}
	r, err := c.Resolve()
	if err != nil {
		panic(fmt.Sprintf("%s: %s: %v", b.f.name, name, err))
	}
	return r.Addr.Asm()
}

// Const returns a new register with v in every lane, Const64 one with v in both halves.
func (b *Builder) Const(v uint32) Reg { return b.Const64(uint64(v)<<32 | uint64(v)) }

func (b *Builder) Const64(v uint64) Reg {
	i := slices.Index(b.consts, v)
	if i < 0 {
		i = len(b.consts)
		b.consts = append(b.consts, v)
	}
	if b.f.consts.id < 0 { // the address of the table is the function's first instruction
		b.f.consts = b.G()
		b.f.code = slices.Insert(b.f.code, 0, instruction{format: "MOVD $" + b.table + "<>(SB), R%d", args: []any{b.f.consts}})
	}
	d := b.V()
	b.Op("FMOVQ %d(R%d), F%d", 16*i, b.f.consts, d)
	return d
}

// Float is Const of a float32.
func (b *Builder) Float(v float64) Reg { return b.Const(math.Float32bits(float32(v))) }

// End writes the function.
func (b *Builder) End() {
	b.Op("RET")
	f := b.f
	numbers := f.allocate()
	bytes := f.types.Bytes()
	fmt.Fprintf(&b.asm, "\n// func %s%s\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", f.name, f.signature[len("func"):], f.name, bytes)
	fmt.Fprintf(&b.stubs, "\n// %s %s\n//\n//go:noescape\nfunc %s%s\n", f.name, f.doc, f.name, f.signature[len("func"):])
	for _, c := range f.code {
		args, word := slices.Clone(c.args), c.word
		for i, a := range args {
			if r, ok := a.(Reg); ok {
				args[i] = numbers[r.id]
				if i < len(c.at) {
					word |= uint32(numbers[r.id]) << c.at[i]
				}
			}
		}
		switch {
		case c.label != "":
			fmt.Fprintf(&b.asm, "\n%s:\n", c.label)
		case c.word != 0:
			fmt.Fprintf(&b.asm, "\tWORD $%#08x // %s\n", word, fmt.Sprintf(c.format, args...))
		default:
			fmt.Fprintf(&b.asm, "\t"+c.format+"\n", args...)
		}
	}
}

// Bytes returns the assembly with its table of constants, and the declarations, both without a header.
func (b *Builder) Bytes() (asm, stubs []byte) {
	for i, v := range b.consts {
		for half := range 2 {
			fmt.Fprintf(&b.asm, "\nDATA %s<>+%d(SB)/8, $%#016x", b.table, 16*i+8*half, v)
		}
	}
	if len(b.consts) > 0 {
		fmt.Fprintf(&b.asm, "\nGLOBL %s<>(SB), RODATA|NOPTR, $%d\n", b.table, 16*len(b.consts))
	}
	return b.asm.Bytes(), b.stubs.Bytes()
}

// allocate returns the number of each register.
func (f *function) allocate() []int {
	first, last := make([]int, f.registers+1), make([]int, f.registers+1)
	general := make([]bool, f.registers+1)
	labels := map[string]int{}
	var loops [][2]int
	for i, c := range f.code {
		if c.label != "" {
			labels[c.label] = i
		}
		if at, ok := labels[c.target]; ok && c.target != "" {
			loops = append(loops, [2]int{at, i})
		}
		for _, a := range c.args {
			if r, ok := a.(Reg); ok {
				if first[r.id] == 0 {
					first[r.id], general[r.id] = i+1, r.general
				}
				last[r.id] = i + 1
			}
		}
	}
	for grown := true; grown; {
		grown = false
		for r := range first {
			for _, l := range loops {
				if first[r] <= l[0]+1 && last[r] > l[0] && last[r] < l[1]+1 {
					last[r], grown = l[1]+1, true
				}
			}
		}
	}
	order := make([]int, 0, f.registers)
	for r := 1; r <= f.registers; r++ {
		if first[r] > 0 {
			order = append(order, r)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return first[a] - first[b] })
	numbers := make([]int, f.registers+1)
	var owner [2][32]int // the end of the register that has it
	for _, r := range order {
		class, free := 0, -1
		if general[r] {
			class = 1
		}
		for n := range 32 {
			// 16 to 18 and 26 to 31 are the linker's, the system's and Go's.
			if class == 1 && (n >= 16 && n <= 18 || n >= 26) {
				continue
			}
			if owner[class][n] <= first[r] {
				free = n
				break
			}
		}
		if free < 0 {
			panic(f.name + ": too few registers")
		}
		owner[class][free], numbers[r] = last[r], free
		if last[r] == first[r] { // written, never read
			owner[class][free]++
		}
	}
	return numbers
}
