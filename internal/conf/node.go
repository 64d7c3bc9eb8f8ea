package conf

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits for untrusted files. Aliases multiply nodes; the parser's time is quadratic in lines and open
// brackets.
const (
	maxNodes    = 100_000
	maxDepth    = 64
	maxLines    = 10_000
	maxBrackets = 10_000
)

type nodeKind int

const (
	nullNode nodeKind = iota
	scalarNode
	listNode
	mapNode
	rawNode // text from outside a document, parsed by the type of its target
)

// node is YAML without anchors, tags and styles; scalars are text.
type node struct {
	kind      nodeKind
	text      string
	quoted    bool
	items     []*node
	entries   []entry
	from      *origin
	line, col int
}

type entry struct {
	key       string
	line, col int
	value     *node
}

// origin is the source of a node: a file, or a source without lines.
type origin struct {
	label string
	file  bool
}

func (o *origin) at(line, col int) string {
	switch {
	case !o.file || line == 0:
		return o.label
	case col == 0:
		return fmt.Sprintf("%s:%d", o.label, line)
	}
	return fmt.Sprintf("%s:%d:%d", o.label, line, col)
}

func (n *node) at() string { return n.from.at(n.line, n.col) }

func (n *node) describe() string {
	switch n.kind {
	case nullNode:
		return "empty"
	case listNode:
		return "a list"
	case mapNode:
		return "a group of keys"
	}
	return fmt.Sprintf("%q", clip(n.text))
}

// parse converts a document to nodes, or nil if it is empty. It continues after a problem if it can.
func parse(from *origin, text string) (root *node, problems []Problem) {
	text = strings.TrimPrefix(text, "\ufeff") // byte order mark
	if p := notText(from, text); p != nil {
		return nil, []Problem{*p}
	}
	if strings.Count(text, "\n") > maxLines || strings.Count(text, "[")+strings.Count(text, "{") > maxBrackets {
		return nil, []Problem{{Where: from.label, Text: "is too deep or too long for a configuration"}}
	}
	c := &converter{from: from, anchors: map[string]ast.Node{}}
	// The parser may panic on invalid text.
	defer func() {
		if recover() != nil {
			root, problems = nil, append(c.problems, Problem{Where: from.label, Text: "cannot be read as YAML"})
		}
	}()
	file, err := parser.ParseBytes([]byte(text), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, []Problem{syntaxProblem(from, text, err)}
	}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			c.report(doc.Body, "a second document; a configuration has one")
			break
		}
		root = c.convert(doc.Body, 0)
	}
	return root, c.problems
}

type converter struct {
	from     *origin
	anchors  map[string]ast.Node
	expand   []string // aliases being followed
	nodes    int
	full     bool
	problems []Problem
}

func (c *converter) report(n ast.Node, format string, args ...any) {
	line, col := position(n)
	c.problems = append(c.problems, Problem{Where: c.from.at(line, col), Text: fmt.Sprintf(format, args...)})
}

func position(n ast.Node) (line, col int) {
	if n == nil {
		return 0, 0
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line, t.Position.Column
	}
	return 0, 0
}

func (c *converter) convert(n ast.Node, depth int) *node {
	line, col := position(n)
	out := &node{from: c.from, line: line, col: col}
	if c.nodes++; c.nodes > maxNodes || depth > maxDepth {
		if !c.full {
			c.full = true
			c.report(n, "is too deep or too long for a configuration")
		}
		return out
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		c.mapping(out, n.Values, depth)
	case *ast.MappingValueNode:
		c.mapping(out, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		out.kind = listNode
		for _, v := range n.Values {
			out.items = append(out.items, c.convert(v, depth+1))
		}
	case *ast.AnchorNode:
		if n.Name != nil {
			c.anchors[n.Name.GetToken().Value] = n.Value
		}
		return c.convert(n.Value, depth+1)
	case *ast.AliasNode:
		return c.alias(n, depth)
	case *ast.TagNode:
		return c.convert(n.Value, depth+1)
	case *ast.StringNode:
		out.kind, out.text = scalarNode, n.Value
		if t := n.GetToken(); t != nil {
			out.quoted = t.Type == token.DoubleQuoteType || t.Type == token.SingleQuoteType
		}
	case *ast.LiteralNode:
		out.kind, out.quoted = scalarNode, true
		if n.Value != nil {
			out.text = n.Value.Value
		}
	case *ast.NullNode, nil:
	case ast.ScalarNode:
		out.kind, out.text = scalarNode, n.GetToken().Value
	default:
		c.report(n, "%s is not supported in configurations", strings.ToLower(n.Type().String()))
	}
	return out
}

func (c *converter) alias(n *ast.AliasNode, depth int) *node {
	name := n.Value.GetToken().Value
	target, ok := c.anchors[name]
	for _, open := range c.expand {
		ok = ok && open != name
	}
	if !ok {
		c.report(n, "alias *%s has no anchor above it", clip(name))
		return &node{from: c.from}
	}
	c.expand = append(c.expand, name)
	out := c.convert(target, depth+1)
	c.expand = c.expand[:len(c.expand)-1]
	return out
}

func (c *converter) mapping(out *node, values []*ast.MappingValueNode, depth int) {
	out.kind = mapNode
	first := map[string]int{}
	for _, v := range values {
		key, ok := v.Key.(ast.ScalarNode)
		if !ok {
			c.report(v.Key, "%s is not a plain key", clip(v.Key.String()))
			continue
		}
		line, col := position(key)
		name := key.GetToken().Value
		if v.Key.IsMergeKey() {
			c.report(v.Key, "merge keys (<<) are not supported. try: write the keys out")
			continue
		}
		if len(out.entries) == 0 {
			// The parser's position is the first colon, not the first key.
			out.line, out.col = line, col
		}
		if at, seen := first[name]; seen {
			c.problems = append(c.problems, Problem{Where: c.from.at(line, 0),
				Text: fmt.Sprintf("duplicate key %q, first at line %d. try: remove one", clip(name), at)})
			continue
		}
		first[name] = line
		out.entries = append(out.entries, entry{key: name, line: line, col: col, value: c.convert(v.Value, depth+1)})
	}
}
