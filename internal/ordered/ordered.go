// Package ordered has a map in file order, for rows of data and template variables.
package ordered

// Map keeps its members in order, like Python's dict. The last member with a key counts.
type Map []Member

// Member is a key and its value.
type Member struct {
	Key   string
	Value any
}

// Get returns the value of a key, or nil.
func (m Map) Get(key string) any {
	for i := len(m) - 1; i >= 0; i-- {
		if m[i].Key == key {
			return m[i].Value
		}
	}
	return nil
}

// Has reports whether the key exists.
func (m Map) Has(key string) bool {
	for _, one := range m {
		if one.Key == key {
			return true
		}
	}
	return false
}
