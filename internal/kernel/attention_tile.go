package kernel

import "math"

var attnNegInf = float32(math.Inf(-1))

const (
	attnRowGroup = 8  // rows whose key ranges are rounded together
	attnKeyGroup = 16 // keys whose query ranges are rounded together
	attnGroups   = attnQueries / attnRowGroup
)

// attnTile is a block of queries against a chunk of keys, trimmed to its visible part. Columns count
// from the first key of the chunk.
type attnTile struct {
	rows   int                   // queries
	c0, c1 int                   // columns that some query sees, in multiples of 16
	lo, hi [attnQueries]int32    // range per query
	gl, gh [attnGroups + 1]int32 // union per group of rows
}

// trim sets the tile to what queries [i,i+rows) see of keys [c,end), and reports whether that is nonempty.
func (t *attnTile) trim(m *AttentionMask, i, rows, c, end int) bool {
	t.rows = rows
	n := int32(end - c)
	t.c0, t.c1 = int(n), 0
	for g := 0; g*attnRowGroup < rows; g++ {
		gl, gh := n, int32(0)
		for r := g * attnRowGroup; r < min(rows, (g+1)*attnRowGroup); r++ {
			lo, hi := max(m.Lo[i+r]-int32(c), 0), min(m.Hi[i+r]-int32(c), n)
			if lo >= hi {
				lo, hi = 0, 0
			} else {
				gl, gh = min(gl, lo), max(gh, hi)
			}
			t.lo[r], t.hi[r] = lo, hi
		}
		if gl >= gh {
			gl, gh = 0, 0
		} else {
			t.c0, t.c1 = min(t.c0, int(gl)&^15), max(t.c1, (int(gh)+15)&^15)
		}
		t.gl[g], t.gh[g] = gl, gh
	}
	return t.c0 < t.c1
}

// groups returns the number of groups of rows.
func (t *attnTile) groups() int { return (t.rows + attnRowGroup - 1) / attnRowGroup }

// scores computes s [rows, visible columns] = q [rows E] times keys in panels (or dO times values):
// one product for the columns visible to all rows, the rest in pairs of groups.
func (t *attnTile) scores(ops attnOps, s []float32, ld int, q []float32, ldq int, kt []float32, e int) {
	const pair = 2
	n := t.groups()
	var from, to [attnGroups]int
	lo, hi := 0, attnKeys
	for g := 0; g < n; g += pair {
		a, b := int(t.gl[g]), int(t.gh[g])
		if g+1 < n && t.gh[g+1] > 0 {
			if b == 0 {
				a = int(t.gl[g+1])
			}
			a, b = min(a, int(t.gl[g+1])), max(b, int(t.gh[g+1]))
		}
		from[g], to[g] = a/attnPanel*attnPanel, (b+15)&^15
		lo, hi = max(lo, from[g]), min(hi, to[g])
	}
	hi = hi / attnPanel * attnPanel
	product := func(g, groups, from, to int) {
		if from < to {
			ops.product(s[g*attnRowGroup*ld+from:], ld, q[g*attnRowGroup*ldq:], ldq, 1, kt[from*e:], attnPanel, attnPanel*e, groups*attnRowGroup, to-from, e, false)
		}
	}
	if lo < hi {
		product(0, n, lo, hi)
	} else {
		lo, hi = attnKeys, attnKeys
	}
	for g := 0; g < n; g += pair {
		w := min(pair, n-g)
		product(g, w, from[g], min(to[g], lo))
		product(g, w, max(from[g], hi), to[g])
	}
}

// overKeys computes o [rows E] = p [rows keys] times v [keys E], or += with accumulate.
func (t *attnTile) overKeys(ops attnOps, o []float32, ldo int, p []float32, ld int, v []float32, ldv int, accumulate bool) {
	n := t.groups()
	for g := 0; g < n; {
		h := g + 1
		for h < n && t.gl[h] == t.gl[g] && t.gh[h] == t.gh[g] {
			h++
		}
		k0, k1 := int(t.gl[g]), int(t.gh[g])
		ops.product(o[g*attnRowGroup*ldo:], ldo, p[g*attnRowGroup*ld+k0:], ld, 1, v[k0*ldv:], ldv, attnPanel, (h-g)*attnRowGroup, ldo, k1-k0, accumulate)
		g = h
	}
}

// overQueries computes d [keys E] += p [rows keys] transposed, times x [rows E].
func (t *attnTile) overQueries(ops attnOps, d []float32, ldd int, p []float32, ld int, x []float32, ldx int) {
	for j := t.c0; j < t.c1; {
		g0, g1 := t.seenBy(j)
		end := j + attnKeyGroup
		for end < t.c1 {
			if a, b := t.seenBy(end); a != g0 || b != g1 {
				break
			}
			end += attnKeyGroup
		}
		if g0 < g1 {
			r0, r1 := g0*attnRowGroup, min(g1*attnRowGroup, t.rows)
			ops.product(d[j*ldd:], ldd, p[r0*ld+j:], 1, ld, x[r0*ldx:], ldx, attnPanel, end-j, ldd, r1-r0, true)
		}
		j = end
	}
}

// seenBy returns the range of row groups that see some of the keys from column j.
func (t *attnTile) seenBy(j int) (g0, g1 int) {
	n := t.groups()
	for g0 < n && (int(t.gl[g0]) >= j+attnKeyGroup || int(t.gh[g0]) <= j) {
		g0++
	}
	for g1 = n; g1 > g0 && (int(t.gl[g1-1]) >= j+attnKeyGroup || int(t.gh[g1-1]) <= j); {
		g1--
	}
	return g0, g1
}
