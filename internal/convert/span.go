package convert

import "fmt"

// span is a range of the elements of a stored tensor.
type span struct {
	from  stored
	first int
	count int
}

// stored is a tensor of a file.
type stored interface {
	ReadRange(first, count int, dst []byte) error
}

// spans are the elements of a tensor, in order, in pieces. size is the bytes of an element.
type spans []span

func (ss spans) elems() (n int) {
	for _, s := range ss {
		n += s.count
	}
	return n
}

// read reads elements [first, first+count) into dst.
func (ss spans) read(first, count, size int, dst []byte) error {
	if len(dst) != count*size {
		return fmt.Errorf("convert: %d elements do not fit a buffer of %d bytes", count, len(dst))
	}
	for _, s := range ss.slice(first, count) {
		if err := s.from.ReadRange(s.first, s.count, dst[:s.count*size]); err != nil {
			return err
		}
		dst = dst[s.count*size:]
	}
	if len(dst) > 0 {
		return fmt.Errorf("convert: %d elements are missing", len(dst)/size)
	}
	return nil
}

// slice returns elements [first, first+count) of ss.
func (ss spans) slice(first, count int) (out spans) {
	for _, s := range ss {
		if first >= s.count {
			first -= s.count
			continue
		}
		n := min(count, s.count-first)
		if n == 0 {
			break
		}
		out = append(out, span{s.from, s.first + first, n})
		first, count = 0, count-n
	}
	return out
}
