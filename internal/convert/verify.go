package convert

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"trireme/fault"
	"trireme/internal/gguf"
)

// Verified is the result of Verify for the files of a checkpoint or a model.
type Verified struct {
	Bytes     int64 // of tensors that were read
	Unchecked bool  // the files have no checksums of the tensors
	Damaged   []Damage
}

// Damage is a tensor that cannot be read, or whose bytes do not match their checksum.
type Damage struct {
	Tensor string
	Err    error
}

// Verify reads all tensors of a file or directory in any of the formats of Open, or of GGUF, and compares their checksums.
// The error is that of a header, of metadata, or of a file that is missing; ErrUnknown if the format is not known.
func Verify(ctx context.Context, path string) (v Verified, err error) {
	if gguf.Is(path) {
		return verifyGGUF(ctx, path)
	}
	s, err := Open(path)
	if file := filepath.Join(path, ggufFile); errors.Is(err, ErrUnknown) && gguf.Is(file) {
		return verifyGGUF(ctx, file)
	}
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	v.Unchecked = s.Unchecked
	for _, t := range s.Tensors {
		err := t.copyTo(ctx, io.Discard)
		if ctx.Err() != nil {
			return v, context.Cause(ctx)
		}
		if err != nil {
			v.Damaged = append(v.Damaged, Damage{t.Name, err})
		} else {
			v.Bytes += t.Bytes()
		}
	}
	return v, nil
}

func verifyGGUF(ctx context.Context, path string) (v Verified, err error) {
	f, err := gguf.Open(path)
	if err != nil {
		return v, fault.Try(err, "download it or convert the model again")
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	v.Unchecked = !f.Checked()
	for i, t := range f.Tensors() {
		if ctx.Err() != nil {
			return v, context.Cause(ctx)
		}
		n, err := f.Verify(i)
		if err != nil {
			v.Damaged = append(v.Damaged, Damage{t.Name, fault.Try(err, "download it or convert the model again")})
		} else {
			v.Bytes += n
		}
	}
	return v, nil
}
