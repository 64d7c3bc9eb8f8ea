package record

import "slices"

// versions are the versions of one buffer's bytes. Writes to rank-dependent ranges are kept
// separately, per set of parts, so that versions are equal on every rank: such a write may touch
// any of the parts.
type versions struct {
	count int
	fixed segments
	parts []partVersions
}

// partVersions are the versions within the rank's part.
type partVersions struct {
	part
	segments
	newest int
}

// part is one of several equal parts, chosen by rank.
type part struct {
	axis             string
	base, elems, all int // in bytes: start of the first part, size of each, size of all
}

// segments are written ranges of bytes, ascending and disjoint.
type segments []segment

type segment struct{ lo, hi, version int }

// partOf is the part that contains a view.
func (v *View) partOf() part {
	size := v.DType.Size()
	return part{v.Axis, v.base * size, v.Elems * size, v.Elems * size * v.Count}
}

// runs are a view's byte ranges in order, relative to its part if it has one.
func (v *View) runs() (out []segment) {
	size := v.DType.Size()
	rows, width := 1, 1
	if n := len(v.Shape); n > 0 {
		rows, width = v.Shape[:n-1].Elems(), v.Shape[n-1]
	}
	if rows == 0 || width == 0 {
		return nil
	}
	at := v.Offset * size
	if v.Axis != "" {
		at -= v.base * size
	}
	if v.RowStride == width {
		return []segment{{lo: at, hi: at + rows*width*size}}
	}
	for r := range rows {
		lo := at + r*v.RowStride*size
		out = append(out, segment{lo: lo, hi: lo + width*size})
	}
	return out
}

// read is the newest version in a view, and whether all of it is written.
func (s *versions) read(v *View) (version int, written bool) {
	runs := v.runs()
	if v.Axis == "" {
		version, written = s.fixed.read(runs)
		for _, p := range s.parts {
			if overlaps(runs, p.base, p.base+p.all) {
				version = max(version, p.newest)
			}
		}
		return version, written
	}
	own := v.partOf()
	version, written = s.fixed.read([]segment{{lo: own.base, hi: own.base + own.all}})
	for _, p := range s.parts {
		if p.part == own {
			newest, all := p.read(runs)
			version, written = max(version, newest), written || all
		} else if p.base < own.base+own.all && own.base < p.base+p.all {
			version = max(version, p.newest)
		}
	}
	return version, written
}

// write creates a version of a view.
func (s *versions) write(v *View) int {
	s.count++
	runs := v.runs()
	for i := range runs {
		runs[i].version = s.count
	}
	if v.Axis == "" {
		s.fixed.write(runs)
		return s.count
	}
	own := v.partOf()
	i := slices.IndexFunc(s.parts, func(p partVersions) bool { return p.part == own })
	if i < 0 {
		i = len(s.parts)
		s.parts = append(s.parts, partVersions{part: own})
	}
	s.parts[i].segments.write(runs)
	s.parts[i].newest = s.count
	return s.count
}

func overlaps(runs []segment, lo, hi int) bool {
	return slices.ContainsFunc(runs, func(r segment) bool { return r.lo < hi && lo < r.hi })
}

// read is the newest version in runs, and whether all are written.
func (s segments) read(runs []segment) (version int, written bool) {
	written = true
	i := 0
	for _, r := range runs {
		at := r.lo
		for i < len(s) && s[i].hi <= at {
			i++
		}
		for k := i; k < len(s) && s[k].lo < r.hi; k++ {
			version = max(version, s[k].version)
			if s[k].lo <= at {
				at = s[k].hi
			}
		}
		written = written && at >= r.hi
	}
	return version, written
}

// write replaces runs, and merges adjacent segments of one version.
func (s *segments) write(runs []segment) {
	var out segments
	put := func(x segment) {
		if n := len(out) - 1; n >= 0 && out[n].hi == x.lo && out[n].version == x.version {
			out[n].hi = x.hi
		} else if x.lo < x.hi {
			out = append(out, x)
		}
	}
	old := slices.Clone(*s)
	for _, r := range runs {
		for len(old) > 0 && old[0].lo < r.lo {
			x := old[0]
			put(segment{x.lo, min(x.hi, r.lo), x.version})
			if x.hi <= r.lo {
				old = old[1:]
				continue
			}
			old[0].lo = r.lo
		}
		put(r)
		for len(old) > 0 && old[0].hi <= r.hi {
			old = old[1:]
		}
		if len(old) > 0 && old[0].lo < r.hi {
			old[0].lo = r.hi
		}
	}
	for _, x := range old {
		put(x)
	}
	*s = out
}
