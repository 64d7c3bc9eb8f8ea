// Package ordered is a mapping in the order of its file: what a row of data is made of, and what
// templates are given.
package ordered

// Map keeps the order of its members, as Python's dict does; of members of one key the last counts.
type Map []Member

// Member is a key of a Map with its value.
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
