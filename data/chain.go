package data

import (
	"errors"
	"sort"
)

// chain is datasets one after the other.
type chain struct {
	parts []Dataset
	ends  []int // rows up to the end of each
	info  Info
}

var _ Dataset = (*chain)(nil)

func (c *chain) add(d Dataset) {
	info := d.Info()
	if len(c.parts) == 0 {
		c.info = info
	} else {
		t, last := &c.info, c.info.MaxID
		t.Length, t.Tokens, t.Learned = max(t.Length, info.Length), t.Tokens+info.Tokens, t.Learned+info.Learned
		t.Cut, t.Barren = t.Cut+info.Cut, t.Barren+info.Barren
		t.Docs, t.Classes, t.Types, t.Labels = t.Docs || info.Docs, t.Classes || info.Classes, t.Types || info.Types, t.Labels || info.Labels
		if t.MaxID = max(t.MaxID, info.MaxID); min(last, info.MaxID) < 0 {
			t.MaxID = -1
		}
	}
	c.parts = append(c.parts, d)
	c.ends = append(c.ends, c.Len()+d.Len())
}

func (c *chain) Len() int {
	if len(c.ends) == 0 {
		return 0
	}
	return c.ends[len(c.ends)-1]
}

// part is the dataset that holds row i, and the row's number there.
func (c *chain) part(i int) (Dataset, int) {
	k := sort.SearchInts(c.ends, i+1)
	if k > 0 {
		i -= c.ends[k-1]
	}
	return c.parts[k], i
}

func (c *chain) Row(i int, r *Row) error {
	d, k := c.part(i)
	return d.Row(k, r)
}

func (c *chain) Tokens(i int) int {
	d, k := c.part(i)
	return d.Tokens(k)
}

func (c *chain) Where(i int) string {
	d, k := c.part(i)
	return d.Where(k)
}

func (c *chain) Info() Info { return c.info }

func (c *chain) Close() error {
	var errs []error
	for _, d := range c.parts {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}
