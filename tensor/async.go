package tensor

import "unsafe"

// DownloadAsync enqueues a copy of src to the host. The function that it returns waits for the copy
// and returns the bytes; later writes to src do not change them. It panics with an error if the
// device fails.
func DownloadAsync(b Memory, src *Tensor) func() []byte {
	if l, ok := b.(interface{ DownloadAsync(*Tensor) func() []byte }); ok {
		return l.DownloadAsync(src)
	}
	out := make([]byte, src.Bytes())
	b.Download(out, src)
	return func() []byte { return out }
}

// FromBytes converts bytes from Download or DownloadAsync to elements.
func FromBytes[E Elem](b []byte) []E {
	var e E
	out := make([]E, len(b)/int(unsafe.Sizeof(e)))
	copy(AsBytes(out), b)
	return out
}
