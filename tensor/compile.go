package tensor

// Compile runs f, which enqueues operations of a step or an evaluation pass. A backend that compiles
// programs records f as one program and runs that. last reports that f is the end of the step: no
// later program reads what f leaves in tensors that it wrote before it read them. Tensors that f
// allocates must be released within f. Compile returns f's error, or the backend's.
func Compile(b Memory, last bool, f func() error) error {
	if c, ok := b.(interface {
		Compile(last bool, f func() error) error
	}); ok {
		return c.Compile(last, f)
	}
	return f()
}

// Compilation is a program that a backend has compiled, or loaded from a cache. Bytes are of one device.
type Compilation struct {
	Name          string
	Seconds       float64
	Ops           int   // recorded operations
	PeakBytes     int64 // arguments, results and temporaries at once
	ArgumentBytes int64
	TempBytes     int64
}

// Compiled lists the programs that b has compiled, oldest first; none if b compiles none.
func Compiled(b Memory) []Compilation {
	if c, ok := b.(interface{ Compiled() []Compilation }); ok {
		return c.Compiled()
	}
	return nil
}
