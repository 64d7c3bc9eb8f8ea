package foreign

import (
	"fmt"
	"strconv"
)

// batch is the triple: rows of a step, rows of a rank's pass, and passes of a rank in a step.
// Any two give the third; one alone means one pass. "auto" leaves a part to the rest of the
// configuration.
type batch struct {
	global, micro, accumulation int64 // 0: not said
	globalKey, microKey, accKey key
	ranks                       int64
}

// batch reads the triple, and settles what it says.
func (r *reader) batch() {
	b := batch{ranks: int64(max(1, r.options.Ranks))}
	left := false        // some part is left to the rest
	const most = 1 << 20 // of a part, so that products fit
	for _, p := range []struct {
		name string
		most int64
		n    *int64
		k    *key
	}{
		{"train_batch_size", most * most, &b.global, &b.globalKey}, {"train_micro_batch_size_per_gpu", most, &b.micro, &b.microKey},
		{"gradient_accumulation_steps", most, &b.accumulation, &b.accKey},
	} {
		k, ok := r.find(p.name)
		if left = left || ok && isAuto(k.Value); !ok || isAuto(k.Value) {
			continue
		}
		if !r.checkValue(k, integer) {
			return
		}
		*p.k = k
		if *p.n, _ = k.Int(); *p.n < 1 || *p.n > p.most {
			r.fail(k, "is %d: it must be between 1 and %d", *p.n, p.most)
			return
		}
	}
	if text := b.mismatch(); text != "" {
		r.fail(b.globalKey, "%s", text)
		return
	}
	b.solve(r, left)
}

// wrong says what does not fit, with both ways out.
func (b batch) mismatch() string {
	t, m, a, w := b.global, b.micro, b.accumulation, b.ranks
	switch {
	case t == 0:
		return ""
	case m > 0 && a > 0 && t != m*a*w:
		text := fmt.Sprintf("%d is not train_micro_batch_size_per_gpu %d x gradient_accumulation_steps %d x %s = %d. try: train_batch_size %d", t, m, a, b.world(), m*a*w, m*a*w)
		switch {
		case t%(m*w) == 0:
			text += fmt.Sprintf(", or gradient_accumulation_steps %d", t/(m*w))
		case t%(a*w) == 0:
			text += fmt.Sprintf(", or train_micro_batch_size_per_gpu %d", t/(a*w))
		default:
			text += `, or gradient_accumulation_steps "auto" with a train_batch_size that divides by ` + fmt.Sprint(m*w)
		}
		return text
	}
	by, what := w, b.world()
	switch {
	case m > 0:
		by, what = m*w, fmt.Sprintf("train_micro_batch_size_per_gpu %d x %s", m, what)
	case a > 0:
		by, what = a*w, fmt.Sprintf("gradient_accumulation_steps %d x %s", a, what)
	}
	if t%by == 0 {
		return ""
	}
	try := fmt.Sprint((t/by + 1) * by)
	if t > by {
		try = fmt.Sprintf("%d or %s", t/by*by, try)
	}
	return fmt.Sprintf("%d does not divide by %s. try: train_batch_size %s, or another number of ranks", t, what, try)
}

func (b batch) world() string {
	if b.ranks == 1 {
		return "1 rank"
	}
	return fmt.Sprintf("%d ranks", b.ranks)
}

// solve settles what the triple gives. left: a part of it is "auto".
func (b batch) solve(r *reader, left bool) {
	const micro, accumulation = "training.micro_batch_size", "training.gradient_accumulation_steps"
	text := func(n int64) string { return strconv.FormatInt(n, 10) }
	if b.micro > 0 {
		r.settle(b.microKey, micro, text(b.micro))
	}
	if b.accumulation > 0 {
		r.settle(b.accKey, accumulation, text(b.accumulation))
	}
	switch {
	case b.global == 0 && b.micro > 0 && b.accumulation == 0 && !left:
		r.settle(b.microKey, accumulation, "1")
	case b.global == 0:
	default:
		r.settle(b.globalKey, "training.global_batch_size", text(b.global))
		switch {
		case b.micro > 0 && b.accumulation == 0:
			r.settle(b.globalKey, accumulation, text(b.global/(b.micro*b.ranks)))
		case b.micro == 0 && b.accumulation > 0:
			r.settle(b.globalKey, micro, text(b.global/(b.accumulation*b.ranks)))
		case b.micro == 0 && !left:
			r.settle(b.globalKey, micro, text(b.global/b.ranks))
			r.settle(b.globalKey, accumulation, "1")
		case b.micro == 0:
			r.assign(b.globalKey, accumulation, "0") // worked out from what micro_batch_size comes to
		}
	}
}
