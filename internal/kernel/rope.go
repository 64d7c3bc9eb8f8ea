package kernel

// Rope rotates the heads of one row x [H*headDim]: halves a, b of a head become a*cos - b*sin and
// b*cos + a*sin (Su et al. 2021). cos and sin are [headDim/2]. dst may be x.
func Rope(dst, x, cos, sin []float32, headDim int, inverse bool) {
	rope(dst, x, cos, sin, headDim, inverse)
}

func ropeGeneric(dst, x, cos, sin []float32, headDim int, inverse bool) {
	half := headDim / 2
	cos, sin = cos[:half], sin[:half]
	for h := 0; h+headDim <= len(dst); h += headDim {
		a, b := x[h:][:half], x[h+half:][:half]
		da, db := dst[h:][:half], dst[h+half:][:half]
		for i := range half {
			c, s := cos[i], sin[i]
			if inverse {
				s = -s
			}
			p, q := a[i], b[i]
			da[i] = p*c - q*s
			db[i] = q*c + p*s
		}
	}
}
