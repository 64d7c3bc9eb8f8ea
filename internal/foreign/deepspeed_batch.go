package foreign

import (
	"fmt"
	"strconv"
)

// batch holds the three batch sizes. Any two give the third; one alone means no accumulation. "auto"
// leaves one to the rest of the configuration.
type batch struct {
	global, micro, accumulation int64 // 0: not set
	globalKey, microKey, accKey key
	ranks                       int64
}

func (r *reader) batch() {
	b := batch{ranks: int64(max(1, r.options.Ranks))}
	left := false        // some part is "auto"
	const most = 1 << 20 // so that products fit
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

// mismatch returns the error of inconsistent sizes, or "".
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
			text += `, or gradient_accumulation_steps "auto" with a train_batch_size divisible by ` + fmt.Sprint(m*w)
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
	return fmt.Sprintf("%d is not divisible by %s. try: train_batch_size %s, or another number of ranks", t, what, try)
}

func (b batch) world() string {
	if b.ranks == 1 {
		return "1 rank"
	}
	return fmt.Sprintf("%d ranks", b.ranks)
}

// solve assigns the sizes. left reports that one is "auto".
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
			r.assign(b.globalKey, accumulation, "0") // computed from micro_batch_size
		}
	}
}
