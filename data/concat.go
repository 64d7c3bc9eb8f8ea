package data

import (
	"errors"
	"sort"
)

type concat struct {
	parts []Dataset
	ends  []int // cumulative row counts
	info  Info
}

var _ Dataset = (*concat)(nil)

func (c *concat) add(d Dataset) {
	info := d.Info()
	if len(c.parts) == 0 {
		c.info = info
	} else {
		t, last := &c.info, c.info.MaxID
		t.Length, t.Tokens, t.LabelCount = max(t.Length, info.Length), t.Tokens+info.Tokens, t.LabelCount+info.LabelCount
		t.Truncated, t.Skipped = t.Truncated+info.Truncated, t.Skipped+info.Skipped
		t.Docs, t.Classes, t.Types, t.Labels = t.Docs || info.Docs, t.Classes || info.Classes, t.Types || info.Types, t.Labels || info.Labels
		if t.MaxID = max(t.MaxID, info.MaxID); min(last, info.MaxID) < 0 {
			t.MaxID = -1
		}
	}
	c.parts = append(c.parts, d)
	c.ends = append(c.ends, c.Len()+d.Len())
}

func (c *concat) Len() int {
	if len(c.ends) == 0 {
		return 0
	}
	return c.ends[len(c.ends)-1]
}

// part returns the dataset of row i, and the row's index there.
func (c *concat) part(i int) (Dataset, int) {
	k := sort.SearchInts(c.ends, i+1)
	if k > 0 {
		i -= c.ends[k-1]
	}
	return c.parts[k], i
}

func (c *concat) Row(i int, r *Row) error {
	d, k := c.part(i)
	return d.Row(k, r)
}

func (c *concat) Tokens(i int) int {
	d, k := c.part(i)
	return d.Tokens(k)
}

func (c *concat) prefetch(i int) error {
	d, k := c.part(i)
	return prefetch(d, k)
}

func (c *concat) Where(i int) string {
	d, k := c.part(i)
	return d.Where(k)
}

func (c *concat) Info() Info { return c.info }

func (c *concat) Close() error {
	var errs []error
	for _, d := range c.parts {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}
