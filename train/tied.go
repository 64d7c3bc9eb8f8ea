package train

import (
	"bytes"
	"fmt"
	"slices"

	"trireme/checkpoint/safetensors"
	"trireme/fault"
	"trireme/tensor"
)

// checkTied refuses files that store a tied parameter twice with different values, for example a head
// that config.json wrongly calls tied. transformers 5 does not tie them.
func (c ModelConfig) checkTied(w *weights) error {
	for name, p := range w.params {
		from, ok := w.from[name]
		if !ok {
			continue
		}
		for _, twice := range p.Duplicates {
			other, ok := w.files.Find(twice)
			if !ok || other.Name == from.Name || matchesAny(c.AllowUnexpected, twice) {
				continue
			}
			same, err := equal(w.files, from, other)
			if err != nil {
				return err
			}
			if !same {
				return fault.Try(fmt.Errorf("train: %s: config.json ties %s to %s, but their values differ", w.files.Name(), other.Name, from.Name), `"tie_word_embeddings": false in config.json, or %s to ignore it`, allow("allow_unexpected", []string{other.Name}))
			}
		}
	}
	return nil
}

func equal(files *safetensors.Files, a, b safetensors.Info) (bool, error) {
	if dt, known := b.Type.DType(); !slices.Equal(a.Shape, b.Shape) || !known || !safetensors.Convertible(dt, tensor.F32) {
		return false, nil
	}
	const chunk = 1 << 20
	x, y := make([]byte, 4*chunk), make([]byte, 4*chunk)
	for lo := 0; lo < a.Elems(); lo += chunk {
		n := min(chunk, a.Elems()-lo)
		if err := files.ReadAs(a.Name, tensor.F32, lo, n, x[:4*n]); err != nil {
			return false, err
		}
		if err := files.ReadAs(b.Name, tensor.F32, lo, n, y[:4*n]); err != nil {
			return false, err
		}
		if !bytes.Equal(x[:4*n], y[:4*n]) {
			return false, nil
		}
	}
	return true, nil
}
