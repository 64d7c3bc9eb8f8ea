package pickle

// Global is the name of a class or function.
type Global struct{ Module, Name string }

func (g Global) String() string { return g.Module + "." + g.Name }

// Tuple is a tuple.
type Tuple []any

// List is a list.
type List struct{ Items []any }

// Set is a set or frozenset, in file order.
type Set struct{ *List }

// Dict is a dict, or an OrderedDict, in file order. A later value of an equal string key replaces
// the earlier one. Keys of other types are kept as they come.
type Dict struct {
	Keys, Values []any
	index        map[string]int
}

// Get returns the value of a string key.
func (d *Dict) Get(key string) (any, bool) {
	i, ok := d.index[key]
	if !ok {
		return nil, false
	}
	return d.Values[i], true
}

// Set sets the value of a key.
func (d *Dict) Set(key, value any) {
	if name, ok := key.(string); ok {
		if i, ok := d.index[name]; ok {
			d.Values[i] = value
			return
		}
		if d.index == nil {
			d.index = map[string]int{}
		}
		d.index[name] = len(d.Keys)
	}
	d.Keys, d.Values = append(d.Keys, key), append(d.Values, value)
}

// Object is an object of a class that was made without a call: its arguments (of __new__ or the
// call) and its state (__dict__ or what __setstate__ would get).
type Object struct {
	Class Global
	Args  Tuple
	State any
}

// Field returns a field of the object's state.
func (o *Object) Field(name string) any {
	d, ok := o.State.(*Dict)
	if !ok {
		return nil
	}
	v, _ := d.Get(name)
	return v
}

// Simple makes the values of Python's own classes from their calls: OrderedDict, set and the like.
// ok is false for other globals. Results share their arguments, so that a short pickle cannot make
// many copies of a long list: a set made from a list is that list, encoded text stays a string.
func Simple(f Global, args Tuple) (v any, ok bool) {
	switch f {
	case Global{"collections", "OrderedDict"}, Global{"collections", "Counter"}, Global{"builtins", "dict"}:
		return &Dict{}, len(args) == 0
	case Global{"collections", "defaultdict"}: // its argument is the function of new values
		return &Dict{}, len(args) <= 1
	case Global{"builtins", "set"}, Global{"builtins", "frozenset"}, Global{"__builtin__", "set"}, Global{"__builtin__", "frozenset"}:
		if len(args) == 0 {
			return &Set{&List{}}, true
		}
		l, ok := args[0].(*List)
		return &Set{l}, ok && len(args) == 1
	case Global{"_codecs", "encode"}: // bytes in protocol 2, as latin-1 text
		if len(args) != 2 || args[1] != any("latin1") {
			return nil, false
		}
		_, ok := args[0].(string)
		return args[0], ok
	}
	return nil, false
}

// Ints converts a tuple or list of ints; ok reports whether v is one.
func Ints(v any) (ints []int, ok bool) {
	t, ok := v.(Tuple)
	if l, list := v.(*List); list {
		t, ok = l.Items, true
	}
	ints = make([]int, len(t))
	for i, n := range t {
		v, whole := n.(int64)
		if !whole {
			return nil, false
		}
		ints[i] = int(v)
	}
	return ints, ok
}
