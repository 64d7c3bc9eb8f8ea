package data

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"trireme/fault"
	"trireme/internal/conf"
)

// slice is part of a split in the syntax of Hugging Face's datasets: train[:1000], train[-10%:].
type slice struct {
	text     string
	split    string // train, validation or test
	from, to *int64 // rows, or percent; negative: from the end; nil: open
	percent  bool
	pct1     bool // round as pct1_dropremainder: percent times floor(rows/100)
}

var sliceForm = regexp.MustCompile(`^(\w+)(?:\[(?:(-?[\d_]+)(%)?)?:(?:(-?[\d_]+)(%)?)?\])?(?:\(([^)]*)\))?$`)

// parseSplit parses slices joined by +.
func parseSplit(text string) ([]slice, error) {
	var all []slice
	for one := range strings.SplitSeq(text, "+") {
		s, err := parseSlice(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func parseSlice(text string) (s slice, err error) {
	m := sliceForm.FindStringSubmatch(text)
	if m == nil {
		return s, fault.Try(fmt.Errorf("%q is not a split", text), "train, train[:1000], train[10%%:20%%] or train[-500:]")
	}
	s = slice{text: text, split: splitWords[strings.ToLower(m[1])], percent: m[3]+m[5] != "", pct1: m[6] == "pct1_dropremainder"}
	if s.split == "" {
		return s, conf.NotOneOf(m[1], splitTrain, splitValidation, splitTest)
	}
	switch {
	case m[6] != "" && !s.pct1 && m[6] != "closest":
		return s, fmt.Errorf("%q: rounding: %w", text, conf.NotOneOf(m[6], "closest", "pct1_dropremainder"))
	case m[6] != "" && !s.percent:
		return s, fault.Try(fmt.Errorf("%q has a rounding but no percent", text), "without (%s)", m[6])
	}
	for _, b := range []struct {
		text string
		to   **int64
	}{{m[2], &s.from}, {m[4], &s.to}} {
		if b.text == "" {
			continue
		}
		n, err := strconv.ParseInt(strings.ReplaceAll(b.text, "_", ""), 10, 64)
		if err != nil || n < -math.MaxInt32 || n > math.MaxInt32 {
			return s, fmt.Errorf("%q: %s is not a number of rows up to %d", text, b.text, math.MaxInt32)
		}
		if s.percent && (n < -100 || n > 100) {
			return s, fmt.Errorf("%q: %d%% is not between -100%% and 100%%", text, n)
		}
		*b.to = &n
	}
	return s, nil
}

// takes reports whether text has a slice of a split.
func takes(text, split string) bool {
	all, err := parseSplit(text)
	return err == nil && slices.ContainsFunc(all, func(s slice) bool { return s.split == split })
}

// splitSummary lists the configured splits, and evalOn if it is the evaluation set; "" if there are
// none.
func (c Config) splitSummary(evalOn string) string {
	var text []string
	if c.Split != "" {
		text = append(text, "split "+c.Split)
	}
	switch {
	case c.EvalSplit != "":
		text = append(text, "eval_split "+c.EvalSplit)
	case c.Split != "" && evalOn != "":
		text = append(text, "evaluation on "+evalOn)
	}
	return strings.Join(text, ", ")
}

// asTrain is the slice of the training split.
func (s slice) asTrain() string {
	if i := strings.IndexAny(s.text, "[("); i >= 0 {
		return splitTrain + s.text[i:]
	}
	return splitTrain
}

// whole reports whether the slice is all of its split.
func (s slice) whole() bool { return s.from == nil && s.to == nil }

// counts reports whether the slice depends on the split's number of rows.
func (s slice) counts() bool {
	return !s.whole() && (s.percent || s.from != nil && *s.from < 0 || s.to != nil && *s.to < 0)
}

// rows returns the first row and the end, as datasets computes them, for a split of n rows; n is
// ignored unless counts.
func (s slice) rows(n int64) (from, to int64, err error) {
	if s.percent && s.pct1 && n < 100 {
		return 0, 0, fault.Try(fmt.Errorf("%s: pct1_dropremainder needs 100 rows, the split has %d", s.text, n), "(closest), the default rounding")
	}
	bound := func(b *int64, open int64) int64 {
		if b == nil {
			return open
		}
		v := *b
		switch {
		case s.percent && s.pct1:
			v *= n / 100
		case s.percent:
			v = int64(math.RoundToEven(float64(v*n) / 100))
		}
		if v < 0 {
			return max(n+v, 0)
		}
		return v
	}
	from, to = bound(s.from, 0), bound(s.to, math.MaxInt64)
	if s.counts() {
		from, to = min(from, n), min(to, n)
	}
	return from, to, nil
}

// part is rows [from, to) of files [first, last) of a source.
type part struct {
	first, last int
	from, to    int64
}

var errPart = errors.New("the part ends")

// window filters the entries passed to f to rows of the part, and returns errPart after them. skip
// reports whether the next n rows are before the part, and skips them.
func (p part) window(f func(*entry) error) (take func(*entry) error, skip func(n int64) bool) {
	row := int64(-1)
	take = func(e *entry) error {
		if !e.rest {
			row++
		}
		switch {
		case row < p.from:
			return nil
		case row >= p.to:
			return errPart
		}
		return f(e)
	}
	skip = func(n int64) bool {
		if row+n >= p.from {
			return false
		}
		row += n
		return true
	}
	return take, skip
}

// slicedSource returns a source of the slices in text; key is the configuration key. If no file
// name contains a split, all rows are train, or with others any split.
func (c Config) slicedSource(key, path, text string, f found, others bool) (*source, error) {
	all, err := parseSplit(text)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", key, err)
	}
	var files []string
	var parts []part
	for _, s := range all {
		of, err := f.split(s, others)
		if err != nil {
			return nil, fmt.Errorf("data: %s: %w", key, err)
		}
		of, _ = withRows(of)
		p := part{len(files), len(files) + len(of), 0, math.MaxInt64}
		files = append(files, of...)
		if !s.whole() {
			if p.from, p.to, err = c.sliceRows(path, of, s); err != nil {
				return nil, fmt.Errorf("data: %s: %w", key, err)
			}
		}
		parts = append(parts, p)
	}
	src, err := c.newSource(path, files)
	if err == nil {
		src.parts, src.slices = parts, fmt.Sprintf("%s (data.%s)", text, key)
	}
	return src, err
}

// sliceRows returns the rows of a slice, and counts the rows of files if needed.
func (c Config) sliceRows(path string, files []string, s slice) (from, to int64, err error) {
	src, err := c.newSource(path, files)
	if err != nil {
		return 0, 0, err
	}
	if src.format == FormatText || src.format == FormatTokens {
		return 0, 0, fault.Try(fmt.Errorf("%s selects rows, but %s files have no rows", s.text, src.format), "%s, or data.eval_fraction for an evaluation set", s.split)
	}
	n := int64(0)
	if s.counts() {
		if n, err = src.countRows(); err != nil {
			return 0, 0, err
		}
	}
	if from, to, err = s.rows(n); err == nil && from >= to {
		err = fault.Try(fmt.Errorf("%s selects no row", s.text), "a slice that ends after it starts")
		if s.counts() {
			err = fault.Try(fmt.Errorf("%s selects none of the %d rows", s.text, n), "a larger slice")
		}
	}
	return from, to, err
}

// split returns the files of a slice's split.
func (f found) split(s slice, others bool) ([]string, error) {
	switch {
	case f.named[s.split] != nil:
		return f.named[s.split], nil
	case len(f.named) > 0:
		return nil, fmt.Errorf("no files of split %s, only of %s", s.split, strings.Join(slices.Sorted(maps.Keys(f.named)), ", "))
	case s.split != splitTrain && !others:
		return nil, fault.Try(fmt.Errorf("no file name contains a split: all rows are %s, none are %s", splitTrain, s.split), "%s", s.asTrain())
	}
	return f.files, nil
}

// sharesRows reports whether the sources have a common row.
func (s *source) sharesRows(with *source) bool {
	for _, p := range s.spans() {
		for _, q := range with.spans() {
			if slices.Equal(s.files[p.first:p.last], with.files[q.first:q.last]) && max(p.from, q.from) < min(p.to, q.to) {
				return true
			}
		}
	}
	return false
}

func (s *source) countRows() (n int64, err error) {
	if s.format == FormatParquet {
		for _, path := range s.files {
			rows, err := parquetRowCount(path)
			if err != nil {
				return 0, err
			}
			n += rows
		}
		return n, nil
	}
	err = s.eachEntry(func(e *entry) error {
		if !e.rest {
			n++
		}
		return nil
	})
	return n, err
}
