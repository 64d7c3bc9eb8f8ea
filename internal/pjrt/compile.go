package pjrt

import (
	"errors"
	"regexp"
	"slices"
	"unsafe"
)

// unknownFlag matches the message about a flag that the compiler does not have.
var unknownFlag = regexp.MustCompile(`No such compile option: '([^']*)'`)

// compile calls f with the PJRT_Program of a module's text and a CompileOptionsProto, again without
// each optional flag that the compiler does not have. It returns the names of those in o's order.
func (o CompileOptions) compile(text string, f func(module unsafe.Pointer, options []byte) error) (dropped []string, err error) {
	if text == "" {
		return nil, errors.New("pjrt: compile: the module has no text")
	}
	format, code := []byte("mlir"), []byte(text)
	p := &program{Code: pointer(code), CodeSize: len(code), Format: pointer(format), FormatSize: len(format)}
	p.StructSize = int(unsafe.Sizeof(*p))
	optional := slices.Clone(o.Optional)
	for {
		options, err := o.encode(optional)
		if err != nil {
			return nil, err
		}
		err = f(unsafe.Pointer(p), options)
		var e *Error
		if !errors.As(err, &e) {
			for _, f := range o.Optional {
				if !slices.Contains(optional, f) {
					dropped = append(dropped, f.Name)
				}
			}
			return dropped, err
		}
		unknown := unknownFlag.FindStringSubmatch(e.Message)
		if unknown == nil {
			return nil, err
		}
		n := len(optional)
		optional = slices.DeleteFunc(optional, func(f Flag) bool { return f.Name == unknown[1] })
		if len(optional) == n {
			return nil, err
		}
	}
}
