package data

import (
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"trireme/internal/ordered"
)

// assembler builds the fields of records from rows of a Parquet file, which are values with levels
// (Melnik et al., Dremel: interactive analysis of web-scale datasets, 2010).
type assembler struct {
	root    *node
	columns [][]parquet.Value // the rest of the current row
	clean   func(text, column string) (string, error)
}

// node is a column, or a group of columns lo to hi.
type node struct {
	name     string
	lo, hi   int
	kind     nodeKind
	optional bool
	def      int // definition level from which an optional value is present
	// A list or dictionary has an element from definition level itemDef on, and each repetition
	// level itemRep starts another.
	itemDef, itemRep int
	children         []*node // a group's fields; a list's element; a dictionary's key and value
	unsigned, text   bool    // of a leaf
}

type nodeKind int

const (
	leafNode nodeKind = iota
	groupNode
	listNode
	dictNode
)

// binaryValue is the value of a field whose bytes are not text.
type binaryValue struct{}

const maxDepth = 64

func newAssembler(c *parquet.Column, clean func(text, column string) (string, error)) (*assembler, error) {
	leaves := 0
	root, err := describeColumn(c, 0, &leaves)
	if err != nil {
		return nil, err
	}
	return &assembler{root, make([][]parquet.Value, leaves), clean}, nil
}

// describeColumn makes nodes of a column and its children, depth first, the order in which leaves
// are numbered.
func describeColumn(c *parquet.Column, depth int, leaves *int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: its schema is %d groups deep", errParquet, depth)
	}
	n := &node{name: c.Name(), lo: *leaves, optional: depth > 0 && c.Optional(), def: c.MaxDefinitionLevel()}
	var mark any
	if l := c.Type().LogicalType(); l != nil {
		mark = l.Value
	}
	if c.Leaf() {
		switch l := mark.(type) {
		case *format.IntType:
			n.unsigned = !l.IsSigned
		case *format.StringType, *format.JsonType, *format.EnumType:
			n.text = true
		}
		*leaves++
	}
	for _, child := range c.Columns() {
		x, err := describeColumn(child, depth+1, leaves)
		if err != nil {
			return nil, err
		}
		n.kind = groupNode
		n.children = append(n.children, x)
	}
	n.hi = *leaves
	if n.lo == n.hi {
		return nil, fmt.Errorf("%w: the group %q has no columns", errParquet, n.name)
	}
	if n.kind == groupNode {
		n.markGroup(mark)
	}
	if depth > 0 && c.Repeated() {
		element := *n
		*n = node{
			name: n.name, lo: n.lo, hi: n.hi, kind: listNode, children: []*node{&element},
			itemDef: c.MaxDefinitionLevel(), itemRep: c.MaxRepetitionLevel(),
		}
	}
	return n, nil
}

// markGroup turns a group annotated as list or dictionary into one, without the groups around the
// repeated field and the element.
func (n *node) markGroup(mark any) {
	if len(n.children) != 1 || n.children[0].kind != listNode {
		return
	}
	inner := n.children[0]
	element := inner.children[0]
	switch mark.(type) {
	case *format.ListType:
		n.kind, n.itemDef, n.itemRep, n.children = listNode, inner.itemDef, inner.itemRep, inner.children
		if element.kind == groupNode && len(element.children) == 1 && element.name != "array" {
			n.children = element.children
		}
	case *format.MapType:
		if element.kind == groupNode && len(element.children) == 2 {
			n.kind, n.itemDef, n.itemRep, n.children = dictNode, inner.itemDef, inner.itemRep, element.children
		}
	}
}

// row returns the fields of a row.
func (a *assembler) row(row parquet.Row) (map[string]any, error) {
	clear(a.columns)
	for i := 0; i < len(row); {
		c, j := row[i].Column(), i+1
		for j < len(row) && row[j].Column() == c {
			j++
		}
		if c < 0 || c >= len(a.columns) || a.columns[c] != nil {
			return nil, fmt.Errorf("%w: a row has column %d of %d", errParquet, c, len(a.columns))
		}
		a.columns[c] = row[i:j]
		i = j
	}
	v, err := a.value(a.root)
	if err != nil {
		return nil, err
	}
	fields := make(map[string]any, len(a.root.children))
	for _, m := range v.(ordered.Map) {
		fields[m.Key] = m.Value
	}
	return fields, nil
}

// value consumes the value of a node.
func (a *assembler) value(n *node) (any, error) {
	values := a.columns[n.lo]
	if len(values) == 0 {
		return nil, fmt.Errorf("%w: %q has no value", errParquet, n.name)
	}
	if n.optional && values[0].DefinitionLevel() < n.def {
		return nil, nil
	}
	switch n.kind {
	case leafNode:
		return a.leaf(n, values[0])
	case listNode:
		list := make([]any, 0, len(values))
		err := a.items(n, func() error {
			v, err := a.value(n.children[0])
			list = append(list, v)
			return err
		})
		return list, err
	case dictNode:
		dict := ordered.Map{}
		err := a.items(n, func() error {
			key, err := a.value(n.children[0])
			if err != nil {
				return err
			}
			v, err := a.value(n.children[1])
			dict = append(dict, ordered.Member{Key: fmt.Sprint(key), Value: v})
			return err
		})
		return dict, err
	}
	group := make(ordered.Map, 0, len(n.children))
	for _, child := range n.children {
		v, err := a.value(child)
		if err != nil {
			return nil, err
		}
		group = append(group, ordered.Member{Key: child.name, Value: v})
	}
	return group, nil
}

// items calls f for every element of a list, with the element's values in the columns.
func (a *assembler) items(n *node, f func() error) error {
	if a.columns[n.lo][0].DefinitionLevel() < n.itemDef {
		return nil
	}
	left := append([][]parquet.Value(nil), a.columns[n.lo:n.hi]...)
	for len(left[0]) > 0 {
		for i, values := range left {
			k := min(1, len(values))
			for k < len(values) && values[k].RepetitionLevel() > n.itemRep {
				k++
			}
			a.columns[n.lo+i], left[i] = values[:k], values[k:]
		}
		if err := f(); err != nil {
			return err
		}
	}
	for _, values := range left {
		if len(values) > 0 {
			return fmt.Errorf("%w: lists of one group have different lengths", errParquet)
		}
	}
	return nil
}

func (a *assembler) leaf(n *node, v parquet.Value) (any, error) {
	if v.IsNull() {
		return nil, nil
	}
	switch v.Kind() {
	case parquet.Boolean:
		return v.Boolean(), nil
	case parquet.Int32:
		if n.unsigned {
			return int64(v.Uint32()), nil
		}
		return int64(v.Int32()), nil
	case parquet.Int64:
		if n.unsigned && v.Uint64() > math.MaxInt64 {
			return float64(v.Uint64()), nil
		}
		return v.Int64(), nil
	case parquet.Float:
		return float64(v.Float()), nil
	case parquet.Double:
		return v.Double(), nil
	case parquet.ByteArray, parquet.FixedLenByteArray:
		text := string(v.ByteArray())
		if !n.text {
			if !utf8.ValidString(text) {
				return binaryValue{}, nil
			}
			return text, nil
		}
		clean, err := a.clean(text, n.name)
		if err != nil {
			return nil, err
		}
		return clean, nil
	}
	return v.String(), nil
}
