package naive

import "trireme/tensor"

// CountClasses counts what is right, found, and there.
func (b *Backend) CountClasses(counts, logits, labels *tensor.Tensor) {
	c := logits.Width()
	n := counts.Flat(0, 3*c)
	count := func(i int) { set(n, 0, i, get(n, 0, i)+1) }
	for row := range logits.Rows() {
		label, class := int(get(labels, 0, row)), 0
		for j := range c {
			if get(logits, row, j) > get(logits, row, class) {
				class = j
			}
		}
		if label < 0 {
			continue
		}
		if class == label {
			count(label)
		}
		count(c + class)
		count(2*c + label)
	}
}
