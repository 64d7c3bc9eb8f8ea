package tensor

import "unsafe"

// DownloadAsync reads a tensor as it is after everything enqueued so far, without waiting where the backend
// runs behind its caller: the function that it returns waits, and gives the elements' bytes. What
// is written to the tensor afterwards does not change them.
func DownloadAsync(b Memory, src *Tensor) func() []byte {
	if l, ok := b.(interface{ DownloadAsync(*Tensor) func() []byte }); ok {
		return l.DownloadAsync(src)
	}
	out := make([]byte, src.Bytes())
	b.Download(out, src)
	return func() []byte { return out }
}

// FromBytes is the elements in b, as Download and DownloadAsync give them.
func FromBytes[E Elem](b []byte) []E {
	var e E
	out := make([]E, len(b)/int(unsafe.Sizeof(e)))
	copy(AsBytes(out), b)
	return out
}
