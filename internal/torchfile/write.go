package torchfile

import (
	"archive/zip"
	"fmt"
	"io"

	"trireme/checkpoint/safetensors"
	"trireme/internal/pickle"
	"trireme/tensor"
)

// Write writes a file of torch.save with one contiguous tensor, whose elements fill writes in order.
// torch.load reads it with weights_only.
func Write(w io.Writer, dt safetensors.Type, shape tensor.Shape, fill func(io.Writer) error) error {
	class, ok := storageOf(dt)
	if !ok {
		return fmt.Errorf("torchfile: torch has no storage of %s", dt)
	}
	dims, strides := make(pickle.Tuple, len(shape)), make(pickle.Tuple, len(shape))
	step := 1
	for d := len(shape) - 1; d >= 0; d-- {
		dims[d], strides[d] = shape[d], step
		step *= max(1, shape[d])
	}
	value := pickle.Call{Func: pickle.Global{Module: "torch._utils", Name: "_rebuild_tensor_v2"}, Args: pickle.Tuple{
		pickle.PersistentID{ID: pickle.Tuple{"storage", pickle.Global{Module: "torch", Name: class}, "0", "cpu", shape.Elems()}},
		0, dims, strides, false, pickle.Call{Func: pickle.Global{Module: "collections", Name: "OrderedDict"}, Args: pickle.Tuple{}},
	}}
	z := zip.NewWriter(w)
	for _, e := range []struct {
		name string
		fill func(io.Writer) error
	}{
		{"data.pkl", content(pickle.Encode(value))}, {"byteorder", content([]byte("little"))}, {"data/0", fill}, {"version", content([]byte("3\n"))},
	} {
		f, err := z.CreateHeader(&zip.FileHeader{Name: "archive/" + e.name, Method: zip.Store})
		if err == nil {
			err = e.fill(f)
		}
		if err != nil {
			return err
		}
	}
	return z.Close()
}

func content(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

func storageOf(dt safetensors.Type) (string, bool) {
	for class, t := range storageTypes {
		if t == dt {
			return class, true
		}
	}
	return "", false
}
