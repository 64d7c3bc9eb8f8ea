package kernel

import "math"

// Philox is Philox4x32-10 (Salmon et al. 2011): four random words of a counter and a key.
func Philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	c0, c1, c2, c3 := counter[0], counter[1], counter[2], counter[3]
	k0, k1 := key[0], key[1]
	for range 10 {
		p, q := uint64(c0)*0xD2511F53, uint64(c2)*0xCD9E8D57
		c0, c1, c2, c3 = uint32(q>>32)^c1^k0, uint32(q), uint32(p>>32)^c3^k1, uint32(p)
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return [4]uint32{c0, c1, c2, c3}
}

// Words sets dst[i] to word at[i]%4 of Philox at counter (at[i]/4, stream) with key seed.
func Words(dst, at []int64, seed, stream uint64) {
	key := [2]uint32{uint32(seed), uint32(seed >> 32)}
	var words [4]uint32
	for i, e := range at {
		k := uint64(e) >> 2
		if i == 0 || k != uint64(at[i-1])>>2 {
			words = Philox([4]uint32{uint32(k), uint32(k >> 32), uint32(stream), uint32(stream >> 32)}, key)
		}
		dst[i] = int64(words[e&3])
	}
}

// Normal fills dst with elements first, first+1, ... of the normal distribution with mean 0 and
// standard deviation std. Elements 2k and 2k+1 are the Box-Muller (1958) pair of Philox at counter
// (k, stream) with key seed. Every product is rounded, so all processors give the same bits.
func Normal(dst []float32, seed, stream uint64, first int64, std float64) {
	at := uint64(first)
	if f, unit := normalFor(); f != nil && len(dst) > 0 {
		lead := at & 1 // assembly begins with a pair
		normalGeneric(dst[:lead], seed, stream, at, std)
		dst, at = dst[lead:], at+lead
		whole := len(dst) / unit * unit
		f(dst[:whole], seed, stream, at>>1, std)
		dst, at = dst[whole:], at+uint64(whole)
	}
	normalGeneric(dst, seed, stream, at, std)
}

// normalFunc is normalGeneric from element 2k.
type normalFunc func(dst []float32, seed, stream, k uint64, std float64)

func normalGeneric(dst []float32, seed, stream, first uint64, std float64) {
	key := [2]uint32{uint32(seed), uint32(seed >> 32)}
	for i := 0; i < len(dst); {
		at := first + uint64(i)
		k := at >> 1
		r := Philox([4]uint32{uint32(k), uint32(k >> 32), uint32(stream), uint32(stream >> 32)}, key)
		a, b := normalPair(uint64(r[1])<<32|uint64(r[0]), uint64(r[3])<<32|uint64(r[2]))
		if at&1 == 0 {
			dst[i] = float32(a * std)
			i++
		}
		if i < len(dst) {
			dst[i] = float32(b * std)
			i++
		}
	}
}

// normalPair maps 128 random bits to two independent normal numbers.
func normalPair(u, v uint64) (float64, float64) {
	x := float64(u>>11+1) * 0x1p-53 // (0, 1]
	r := math.Sqrt(float64(-2 * logUnit(x)))
	s, c := sincosTurn(v)
	return float64(r * c), float64(r * s)
}

// logUnit returns the natural logarithm of x in (0, 1], to about 1 ulp, by the reduction and
// polynomial of FreeBSD's e_log.c.
func logUnit(x float64) float64 {
	const (
		ln2Hi = 6.93147180369123816490e-01
		ln2Lo = 1.90821492927058770002e-10
		l1    = 6.666666666666735130e-01
		l2    = 3.999999999940941908e-01
		l3    = 2.857142874366239149e-01
		l4    = 2.222219843214978396e-01
		l5    = 1.818357216161805012e-01
		l6    = 1.531383769920937332e-01
		l7    = 1.479819860511658591e-01
	)
	u := math.Float64bits(x) // x is normal: at least 2^-53
	u += 0x3ff0000000000000 - 0x3fe6a09e667f3bcd
	e := int64(u>>52) - 1023
	f := math.Float64frombits(u&(1<<52-1)+0x3fe6a09e667f3bcd) - 1 // in [sqrt(1/2), sqrt(2)) - 1
	k := float64(e)
	s := f / (2 + f)
	z := float64(s * s)
	w := float64(z * z)
	t1 := float64(w * (l2 + float64(w*(l4+float64(w*l6)))))
	t2 := float64(z * (l1 + float64(w*(l3+float64(w*(l5+float64(w*l7)))))))
	r := t1 + t2
	half := float64(0.5 * float64(f*f))
	return float64(k*ln2Hi) - ((half - (float64(s*(half+r)) + float64(k*ln2Lo))) - f)
}

// sincosTurn returns the sine and cosine of 2*pi*v/2^64, reduced to +-pi/4, by the polynomials of
// FreeBSD's k_sin.c and k_cos.c.
func sincosTurn(v uint64) (sin, cos float64) {
	const (
		s1 = -1.66666666666666324348e-01
		s2 = 8.33333333332248946124e-03
		s3 = -1.98412698298579493134e-04
		s4 = 2.75573137070700676789e-06
		s5 = -2.50507602534068634195e-08
		s6 = 1.58969099521155010221e-10
		c1 = 4.16666666666666019037e-02
		c2 = -1.38888888888741095749e-03
		c3 = 2.48015872894767294178e-05
		c4 = -2.75573143513906633035e-07
		c5 = 2.08757232129817482790e-09
		c6 = -1.13596475577881948265e-11
	)
	quarter := (v + 1<<61) >> 62
	t := float64(float64(int64(v-quarter<<62)>>9) * (math.Pi * 2 * 0x1p-55)) // in +-pi/4
	z := float64(t * t)
	ps := s1 + float64(z*(s2+float64(z*(s3+float64(z*(s4+float64(z*(s5+float64(z*s6)))))))))
	pc := c1 + float64(z*(c2+float64(z*(c3+float64(z*(c4+float64(z*(c5+float64(z*c6)))))))))
	sin = t + float64(float64(t*z)*ps)
	cos = 1 - float64(0.5*z) + float64(float64(z*z)*pc)
	// Quadrants swap the two and change signs; branches would be mispredicted.
	a, b := math.Float64bits(sin), math.Float64bits(cos)
	swap := (a ^ b) & -(quarter & 1)
	a ^= swap ^ quarter>>1<<63
	b ^= swap ^ (quarter>>1^quarter)<<63
	return math.Float64frombits(a), math.Float64frombits(b)
}
