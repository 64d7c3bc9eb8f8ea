package arm

import "fmt"

// Instructions on vectors of four floats or words unless their names say otherwise (Arm Architecture Reference Manual,
// C7.2). A name in quotation marks is the mnemonic; %d are the registers.

func (b *Builder) word(word uint32, at []int, format string, args ...any) {
	b.f.code = append(b.f.code, instruction{format: format, args: args, word: word, at: at})
}

// three emits d = n op m.
func (b *Builder) three(word uint32, name, form string, d, n, m Reg) {
	b.word(word, []int{0, 5, 16}, fmt.Sprintf("%s v%%d.%s, v%%d.%s, v%%d.%s", name, form, form, form), d, n, m)
}

func (b *Builder) new3(word uint32, name, form string, n, m Reg) Reg {
	d := b.V()
	b.three(word, name, form, d, n, m)
	return d
}

func (b *Builder) Add(x, y Reg) Reg      { return b.new3(0x4e20d400, "fadd", "4s", x, y) }
func (b *Builder) Sub(x, y Reg) Reg      { return b.new3(0x4ea0d400, "fsub", "4s", x, y) }
func (b *Builder) Mul(x, y Reg) Reg      { return b.new3(0x6e20dc00, "fmul", "4s", x, y) }
func (b *Builder) Div(x, y Reg) Reg      { return b.new3(0x6e20fc00, "fdiv", "4s", x, y) }
func (b *Builder) Max(x, y Reg) Reg      { return b.new3(0x4e20f400, "fmax", "4s", x, y) } // NaN if either is
func (b *Builder) Min(x, y Reg) Reg      { return b.new3(0x4ea0f400, "fmin", "4s", x, y) }
func (b *Builder) Greater(x, y Reg) Reg  { return b.new3(0x6ea0e400, "fcmgt", "4s", x, y) } // all bits where x > y
func (b *Builder) Equal(x, y Reg) Reg    { return b.new3(0x4e20e400, "fcmeq", "4s", x, y) }
func (b *Builder) NotBelow(x, y Reg) Reg { return b.new3(0x6ea03c00, "cmhs", "4s", x, y) }  // unsigned x >= y
func (b *Builder) Test(x, y Reg) Reg     { return b.new3(0x4ea08c00, "cmtst", "4s", x, y) } // all bits where x&y is not 0
func (b *Builder) And(x, y Reg) Reg      { return b.new3(0x4e201c00, "and", "16b", x, y) }
func (b *Builder) AndNot(x, y Reg) Reg   { return b.new3(0x4e601c00, "bic", "16b", x, y) }
func (b *Builder) Or(x, y Reg) Reg       { return b.new3(0x4ea01c00, "orr", "16b", x, y) }
func (b *Builder) Xor(x, y Reg) Reg      { return b.new3(0x6e201c00, "eor", "16b", x, y) }
func (b *Builder) AddWords(x, y Reg) Reg { return b.new3(0x4ea08400, "add", "4s", x, y) }
func (b *Builder) SubWords(x, y Reg) Reg { return b.new3(0x6ea08400, "sub", "4s", x, y) }
func (b *Builder) Zip1(x, y Reg) Reg     { return b.new3(0x4e803800, "zip1", "4s", x, y) }
func (b *Builder) Zip2(x, y Reg) Reg     { return b.new3(0x4e807800, "zip2", "4s", x, y) }
func (b *Builder) Even(x, y Reg) Reg     { return b.new3(0x4e801800, "uzp1", "4s", x, y) }
func (b *Builder) Odd(x, y Reg) Reg      { return b.new3(0x4e805800, "uzp2", "4s", x, y) }
func (b *Builder) AddPairs(x, y Reg) Reg { return b.new3(0x6e20d400, "faddp", "4s", x, y) }

// Two doubles or 64-bit integers.
func (b *Builder) AddDoubles(x, y Reg) Reg { return b.new3(0x4e60d400, "fadd", "2d", x, y) }
func (b *Builder) SubDoubles(x, y Reg) Reg { return b.new3(0x4ee0d400, "fsub", "2d", x, y) }
func (b *Builder) MulDoubles(x, y Reg) Reg { return b.new3(0x6e60dc00, "fmul", "2d", x, y) }
func (b *Builder) DivDoubles(x, y Reg) Reg { return b.new3(0x6e60fc00, "fdiv", "2d", x, y) }
func (b *Builder) AddLongs(x, y Reg) Reg   { return b.new3(0x4ee08400, "add", "2d", x, y) }
func (b *Builder) SubLongs(x, y Reg) Reg   { return b.new3(0x6ee08400, "sub", "2d", x, y) }

// FMA emits d += x*y, FMS d -= x*y, FMADoubles d += x*y for two doubles.
func (b *Builder) FMA(d, x, y Reg)        { b.three(0x4e20cc00, "fmla", "4s", d, x, y) }
func (b *Builder) FMS(d, x, y Reg)        { b.three(0x4ea0cc00, "fmls", "4s", d, x, y) }
func (b *Builder) FMADoubles(d, x, y Reg) { b.three(0x4e60cc00, "fmla", "2d", d, x, y) }

// FMALane emits d += x*y[i].
func (b *Builder) FMALane(d, x, y Reg, i int) {
	b.word(0x4f801000|uint32(i&1)<<21|uint32(i>>1)<<11, []int{0, 5, 16}, fmt.Sprintf("fmla v%%d.4s, v%%d.4s, v%%d.s[%d]", i), d, x, y)
}

// Select replaces the mask k by x where its bits are set, else by y.
func (b *Builder) Select(k, x, y Reg) { b.three(0x6e601c00, "bsl", "16b", k, x, y) }

// Set emits d = x, Accumulate d += x.
func (b *Builder) Set(d, x Reg) {
	b.word(0x4ea01c00, []int{0, 5, 16}, "orr v%d.16b, v%d.16b, v%d.16b", d, x, x)
}
func (b *Builder) Accumulate(d, x Reg) { b.three(0x4e20d400, "fadd", "4s", d, d, x) }

// MaxInto emits d = max(d, x).
func (b *Builder) MaxInto(d, x Reg) { b.three(0x4e20f400, "fmax", "4s", d, d, x) }

// Products of the lower or upper two words, 64 bits each.
func (b *Builder) MulLong(x, y Reg) Reg {
	d := b.V()
	b.word(0x2ea0c000, []int{0, 5, 16}, "umull v%d.2d, v%d.2s, v%d.2s", d, x, y)
	return d
}

func (b *Builder) MulLong2(x, y Reg) Reg {
	d := b.V()
	b.word(0x6ea0c000, []int{0, 5, 16}, "umull2 v%d.2d, v%d.4s, v%d.4s", d, x, y)
	return d
}

func (b *Builder) two(word uint32, name, to, from string, d, n Reg) {
	b.word(word, []int{0, 5}, fmt.Sprintf("%s v%%d.%s, v%%d.%s", name, to, from), d, n)
}

func (b *Builder) new2(word uint32, name, to, from string, n Reg) Reg {
	d := b.V()
	b.two(word, name, to, from, d, n)
	return d
}

func (b *Builder) Sqrt(x Reg) Reg     { return b.new2(0x6ea1f800, "fsqrt", "4s", "4s", x) }
func (b *Builder) Round(x Reg) Reg    { return b.new2(0x4e218800, "frintn", "4s", "4s", x) }
func (b *Builder) Floor(x Reg) Reg    { return b.new2(0x4e219800, "frintm", "4s", "4s", x) }
func (b *Builder) ToWords(x Reg) Reg  { return b.new2(0x4e21a800, "fcvtns", "4s", "4s", x) }
func (b *Builder) ToFloats(x Reg) Reg { return b.new2(0x4e21d800, "scvtf", "4s", "4s", x) }

// Wider and narrower elements; names with 2 read or write the upper half of a register.
func (b *Builder) Doubles(x Reg) Reg         { return b.new2(0x0e617800, "fcvtl", "2d", "2s", x) }
func (b *Builder) Doubles2(x Reg) Reg        { return b.new2(0x4e617800, "fcvtl2", "2d", "4s", x) }
func (b *Builder) OfHalf(x Reg) Reg          { return b.new2(0x0e217800, "fcvtl", "4s", "4h", x) }
func (b *Builder) OfHalf2(x Reg) Reg         { return b.new2(0x4e217800, "fcvtl2", "4s", "8h", x) }
func (b *Builder) ToHalf(x Reg) Reg          { return b.new2(0x0e216800, "fcvtn", "4h", "4s", x) }
func (b *Builder) ToHalf2(d, x Reg)          { b.two(0x4e216800, "fcvtn2", "8h", "4s", d, x) }
func (b *Builder) Narrow(x Reg) Reg          { return b.new2(0x0e612800, "xtn", "4h", "4s", x) }
func (b *Builder) Narrow2(d, x Reg)          { b.two(0x4e612800, "xtn2", "8h", "4s", d, x) }
func (b *Builder) OfBF16(x Reg) Reg          { return b.new2(0x2e613800, "shll", "4s", "4h, #16", x) }
func (b *Builder) OfBF16Up(x Reg) Reg        { return b.new2(0x6e613800, "shll2", "4s", "8h, #16", x) }
func (b *Builder) Shorts(x Reg) Reg          { return b.new2(0x0f08a400, "sxtl", "8h", "8b", x) }
func (b *Builder) Shorts2(x Reg) Reg         { return b.new2(0x4f08a400, "sxtl2", "8h", "16b", x) }
func (b *Builder) Words(x Reg) Reg           { return b.new2(0x0f10a400, "sxtl", "4s", "4h", x) }
func (b *Builder) Words2(x Reg) Reg          { return b.new2(0x4f10a400, "sxtl2", "4s", "8h", x) }
func (b *Builder) SqrtDoubles(x Reg) Reg     { return b.new2(0x6ee1f800, "fsqrt", "2d", "2d", x) }
func (b *Builder) LongsToDoubles(x Reg) Reg  { return b.new2(0x4e61d800, "scvtf", "2d", "2d", x) }
func (b *Builder) DoublesToFloats(x Reg) Reg { return b.new2(0x0e616800, "fcvtn", "2s", "2d", x) }
func (b *Builder) NarrowLongs(x Reg) Reg     { return b.new2(0x0ea12800, "xtn", "2s", "2d", x) }
func (b *Builder) SumPair(x Reg) Reg         { return b.scalar(0x7e30d800, "faddp s%d, v%d.2s", x) }
func (b *Builder) SumDoubles(x Reg) Reg      { return b.scalar(0x7e70d800, "faddp d%d, v%d.2d", x) }
func (b *Builder) MaxLane(x Reg) Reg         { return b.scalar(0x6e30f800, "fmaxv s%d, v%d.4s", x) }

func (b *Builder) scalar(word uint32, format string, x Reg) Reg {
	d := b.V()
	b.word(word, []int{0, 5}, format, d, x)
	return d
}

func (b *Builder) shift(word, bits uint32, name, form string, n int, x Reg) Reg {
	d := b.V()
	b.word(word|bits<<16, []int{0, 5}, fmt.Sprintf("%s v%%d.%s, v%%d.%s, #%d", name, form, form, n), d, x)
	return d
}

// Left, Right and RightSigned shift words by n bits.
func (b *Builder) Left(x Reg, n int) Reg { return b.shift(0x4f005400, uint32(32+n), "shl", "4s", n, x) }
func (b *Builder) Right(x Reg, n int) Reg {
	return b.shift(0x6f000400, uint32(64-n), "ushr", "4s", n, x)
}
func (b *Builder) RightSigned(x Reg, n int) Reg {
	return b.shift(0x4f000400, uint32(64-n), "sshr", "4s", n, x)
}

// LeftLongs, RightLongs and RightSignedLongs shift 64-bit integers by n bits.
func (b *Builder) LeftLongs(x Reg, n int) Reg {
	return b.shift(0x4f005400, uint32(64+n), "shl", "2d", n, x)
}
func (b *Builder) RightLongs(x Reg, n int) Reg {
	return b.shift(0x6f000400, uint32(128-n), "ushr", "2d", n, x)
}
func (b *Builder) RightSignedLongs(x Reg, n int) Reg {
	return b.shift(0x4f000400, uint32(128-n), "sshr", "2d", n, x)
}

// Zero returns a register of zeros.
func (b *Builder) Zero() Reg {
	d := b.V()
	b.word(0x6f00e400, []int{0}, "movi v%d.2d, #0", d)
	return d
}

// Copy returns a copy of x.
func (b *Builder) Copy(x Reg) Reg {
	d := b.V()
	b.Set(d, x)
	return d
}

// Load reads a vector at a general register's address plus disp bytes, Lane one element to lane 0 with zeros above, Repeat
// one to all lanes.
func (b *Builder) Load(base Reg, disp int) Reg {
	d := b.V()
	b.Op("FMOVQ %d(R%d), F%d", disp, base, d)
	return d
}

func (b *Builder) Lane(base Reg, disp int) Reg {
	d := b.V()
	b.Op("FMOVS %d(R%d), F%d", disp, base, d)
	return d
}

func (b *Builder) Repeat(base Reg) Reg {
	d := b.V()
	b.Op("VLD1R (R%d), [V%d.S4]", base, d)
	return d
}

// Dup returns x's lane 0 in all lanes.
func (b *Builder) Dup(x Reg) Reg {
	d := b.V()
	b.word(0x4e040400, []int{0, 5}, "dup v%d.4s, v%d.s[0]", d, x)
	return d
}

// Store and StoreLane write a vector, or its lane 0.
func (b *Builder) Store(v, base Reg, disp int)     { b.Op("FMOVQ F%d, %d(R%d)", v, disp, base) }
func (b *Builder) StoreLane(v, base Reg, disp int) { b.Op("FMOVS F%d, %d(R%d)", v, disp, base) }

// Transpose returns the columns of four rows of four words.
func (b *Builder) Transpose(r [4]Reg) [4]Reg {
	low, high := b.Zip1(r[0], r[2]), b.Zip2(r[0], r[2])
	low2, high2 := b.Zip1(r[1], r[3]), b.Zip2(r[1], r[3])
	return [4]Reg{b.Zip1(low, low2), b.Zip2(low, low2), b.Zip1(high, high2), b.Zip2(high, high2)}
}
