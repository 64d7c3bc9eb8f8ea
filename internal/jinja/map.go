package jinja

// Map is a mapping as Render is given one. It keeps its order, as Python's does; of members of
// one key the last counts.
type Map []Member

// Member is a key of a Map with its value, of a kind that Render takes.
type Member struct {
	Key   string
	Value any
}

// Get is the value of a key, nil where there is none.
func (m Map) Get(key string) any {
	for i := len(m) - 1; i >= 0; i-- {
		if m[i].Key == key {
			return m[i].Value
		}
	}
	return nil
}

// Has says whether there is a key.
func (m Map) Has(key string) bool {
	for _, one := range m {
		if one.Key == key {
			return true
		}
	}
	return false
}
