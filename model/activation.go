package model

import "fmt"

// GELU reports whether the activation named in config.json is GELU's tanh approximation, as opposed
// to exact GELU. Errors for other activations start with the name.
func GELU(name string) (tanh bool, err error) {
	switch name {
	case "gelu_new", "gelu_pytorch_tanh", "gelu_fast":
		return true, nil
	case "gelu", "gelu_python":
		return false, nil
	}
	return false, fmt.Errorf("%q is not supported: use gelu, gelu_new, gelu_pytorch_tanh or gelu_fast", name)
}
