package kernel

import "math"

// tiledBackward is the scratch of a backward pass by tiles.
type tiledBackward struct {
	q, do      tiledChunk
	lse, d     []float32 // of the queries of a chunk, base 2
	rows       []uint16  // 32 rows as tiles
	k, v       []uint16  // a block of keys: two strips
	kt         []uint16  // keys as columns: [steps of columns][2]
	s, dp      []float32 // [64 keys][64 queries] scores and gradients of probabilities
	p, ds      []uint16  // [2 strips][steps of a chunk] probabilities and gradients of scores
	pairs      []uint16  // [panels of a chunk][2] gradients of scores with k = keys
	dq         []float32 // [columns][queries of a chunk]
	dk, dv     []float32 // [keys][columns]
	o          []float32 // converted rows
	back       []float32
	wide       []float32
	masks      tiledMasks
	e, queries int // steps of columns, and of queries of a chunk
}

// tiledChunk is a chunk of queries, or of their output gradients, as columns and as k.
type tiledChunk struct{ columns, pairs []uint16 }

func (a *Attention) tiledBackwardScratch(mem []float32) (b tiledBackward, n int) {
	s := attnScratch{mem: mem}
	e, queries := stepsOf(a.E), 2*min((a.T+attnQueries-1)/attnQueries, tiledQueries/attnQueries)
	tile := func(n int) []uint16 { return halves(s.take(n * tileElems / 2)) }
	b.e, b.queries = e, queries
	for _, c := range []*tiledChunk{&b.q, &b.do} {
		c.columns, c.pairs = tile(queries*e), tile(queries*e)
	}
	b.lse, b.d = s.take(queries*tileRows), s.take(queries*tileRows)
	b.rows = tile(e)
	b.k, b.v, b.kt = tile(2*e), tile(2*e), tile(2*e)
	b.s, b.dp = s.take(tiledBlock*attnQueries), s.take(tiledBlock*attnQueries)
	b.p, b.ds, b.pairs = tile(2*queries), tile(2*queries), tile(2*queries)
	b.dq = s.take(e * tileDepth * a.queryStride(queries))
	keys := roundUp(a.T, tiledBlock)
	b.dk, b.dv = s.take(keys*e*tileDepth), s.take(keys*e*tileDepth)
	b.o = s.take(attnQueries * roundUp(a.E, 16))
	b.back = s.take(attnQueries * roundUp(a.E, 16))
	b.wide = s.take(attnQueries * roundUp(a.E, 16))
	b.masks = takeMasks(&s, tiledBlock)
	return b, s.used
}

// queryStride is an odd number of cache lines.
func (a *Attention) queryStride(steps int) int { return steps*tileRows + 16 }

// backwardTiles is Backward by tiles.
func (a *Attention) backwardTiles(ops attnOps, scratch []float32, part AttentionPart, dq, dk, dv, do, o AttentionRows, lse []float32, q, k, v AttentionRows) {
	b, _ := a.tiledBackwardScratch(scratch)
	width := b.e * tileDepth
	clear(b.dk[part.K0*width : roundUp(part.K1, tiledBlock)*width])
	clear(b.dv[part.K0*width : roundUp(part.K1, tiledBlock)*width])
	kept := float32(1)
	if a.Drop.Below > 0 {
		kept = a.Drop.Scale
	}
	q0, q1, k0, k1 := part.reads(a.T)
	for g := range a.Group {
		for c := q0; c < q1; c += tiledQueries {
			n, col := min(tiledQueries, q1-c), g*a.E
			first, last := a.Mask.span(c, c+n)
			if first, last = max(first, k0), min(last, k1); first >= last && !part.hasQueries() {
				continue
			}
			a.takeChunk(ops, &b, part, do.From(c, col), o.From(c, col), lse[g*a.LSE+c:], q.From(c, col), n, kept)
			if part.hasQueries() {
				clear(b.dq)
			}
			for j := first / tiledBlock * tiledBlock; j < last; j += tiledBlock {
				a.backwardTilesBlock(ops, &b, part, g, k, v, c, n, j)
			}
			for i := 0; i < n && part.hasQueries(); i += attnQueries {
				a.unpackColumns(ops, dq.From(c+i, col), b.dq[i:], a.queryStride(b.queries), b.back, b.wide, min(attnQueries, n-i), []float32{a.Scale * kept}, 0)
			}
		}
	}
	for j := part.K0; j < part.K1; j += attnQueries {
		rows := min(attnQueries, part.K1-j)
		a.unpackWide(ops, dk.From(j, 0), b.dk[j*width:], b.back, b.wide, rows, a.Scale*kept)
		a.unpackWide(ops, dv.From(j, 0), b.dv[j*width:], b.back, b.wide, rows, kept)
	}
}

// unpackWide is unpack for rows padded to full steps.
func (a *Attention) unpackWide(ops attnOps, dst AttentionRows, src, back, wide []float32, rows int, f float32) {
	from, to := stepsOf(a.E)*tileDepth, roundUp(a.E, 16)
	if from != to {
		for r := range rows {
			copy(back[r*to:][:to], src[r*from:])
		}
		src = back
	}
	a.unpack(ops, dst, src, wide, rows, []float32{f}, 0)
}

// takeChunk packs n queries with their statistics. The sums over do*o are divided by the dropout
// scale, which is applied at the end.
func (a *Attention) takeChunk(ops attnOps, b *tiledBackward, part AttentionPart, do, o AttentionRows, lse []float32, q AttentionRows, n int, kept float32) {
	for i := 0; i < b.queries*tileRows; i += tileRows {
		for _, x := range []struct {
			src AttentionRows
			to  *tiledChunk
		}{{q, &b.q}, {do, &b.do}} {
			gatherTiles(b.rows, x.src.rest(i, n), min(tileRows, n-i), a.E)
			transposeToB(x.to.columns[i/tileRows*b.e*tileElems:], b.rows, b.e)
			for e := 0; e < b.e && part.hasKeys(); e++ {
				pairTile(x.to.pairs[(e*b.queries+i/tileRows)*tileElems:], b.rows[e*tileElems:])
			}
		}
	}
	for i := 0; i < n; i += attnQueries {
		rows := min(attnQueries, n-i)
		a.pack(ops, b.back, do.From(i, 0), rows, 1)
		a.pack(ops, b.o, o.From(i, 0), rows, 1)
		ops.dot(b.d[i:], b.back, roundUp(a.E, 16), b.o, roundUp(a.E, 16), rows, a.E)
	}
	scale(b.d[:n], 1/kept)
	for i, x := range lse[:n] {
		b.lse[i] = x * math.Log2E
	}
}

// backwardTilesBlock adds the contributions of the n queries from c and the block of keys from j.
func (a *Attention) backwardTilesBlock(ops attnOps, b *tiledBackward, part AttentionPart, g int, k, v AttentionRows, c, n, j int) {
	e := b.e
	for h := range 2 {
		from, rows := j+h*tileRows, min(tileRows, a.T-j-h*tileRows)
		gatherTiles(b.k[h*e*tileElems:], k.rest(from, a.T), rows, a.E)
		gatherTiles(b.v[h*e*tileElems:], v.rest(from, a.T), rows, a.E)
		for s := 0; s < e && part.hasQueries(); s++ {
			transposeTile(b.kt[(2*s+h)*tileElems:], b.k[(h*e+s)*tileElems:])
		}
	}
	begin, end := -1, 0 // steps of queries that see some of the keys
	for i := 0; i < n; i += attnQueries {
		step, rows := i/tileRows, min(attnQueries, n-i)
		lo, hi := a.Mask.span(c+i, c+i+rows)
		if lo >= j+tiledBlock || hi <= j {
			if begin >= 0 {
				b.clearStep(step)
			}
			continue
		}
		if begin < 0 {
			begin = step
		}
		end = step + 2
		by := tilesOf{2, 2, e, e * tileElems, e * tileElems, 0}
		tiles(by, b.k, b.q.columns[step*e*tileElems:], b.s, attnQueries, true)
		tiles(by, b.v, b.do.columns[step*e*tileElems:], b.dp, attnQueries, true)
		seen, kept := b.masks.set(ops, a, g, c+i, rows, j, tiledBlock)
		ops.tileGradient(b.p[step*tileElems:], b.ds[step*tileElems:], b.queries*tileElems, b.pairs[2*step*tileElems:], 2*tileElems, b.s, b.dp, seen, kept, a.Scale*math.Log2E, b.lse[i:], b.d[i:])
	}
	if begin < 0 {
		return
	}
	steps := end - begin
	if part.hasKeys() {
		over := tilesOf{2, e, steps, b.queries * tileElems, b.queries * tileElems, 0}
		tiles(over, b.p[begin*tileElems:], b.do.pairs[begin*tileElems:], b.dv[j*e*tileDepth:], e*tileDepth, false)
		tiles(over, b.ds[begin*tileElems:], b.q.pairs[begin*tileElems:], b.dk[j*e*tileDepth:], e*tileDepth, false)
	}
	if part.hasQueries() {
		tiles(tilesOf{e, steps, 2, 2 * tileElems, 2 * tileElems, 0}, b.kt, b.pairs[2*begin*tileElems:], b.dq[begin*tileRows:], a.queryStride(b.queries), false)
	}
}

// clearStep zeroes one block of queries.
func (b *tiledBackward) clearStep(step int) {
	for h := range 2 {
		clear(b.p[(h*b.queries+step)*tileElems:][:2*tileElems])
		clear(b.ds[(h*b.queries+step)*tileElems:][:2*tileElems])
	}
	clear(b.pairs[2*step*tileElems:][:4*tileElems])
}
