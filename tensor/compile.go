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
