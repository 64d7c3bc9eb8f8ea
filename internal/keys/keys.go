package keys

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"trireme/internal/conf"
)

// Key is a key or a group of keys.
type Key struct {
	Path    string   `json:"key"` // training.max_steps
	Type    string   `json:"type"`
	Default string   `json:"default,omitempty"` // in YAML; empty for a group
	Values  []string `json:"values,omitempty"`  // allowed values of an enumeration
	Meaning string   `json:"meaning"`
}

// Group is the Type of a group of keys.
const Group = "group"

//go:embed keys.json
var table []byte

// All lists all keys and groups in the order of the configuration, a group before its keys.
var All = sync.OnceValue(func() []Key {
	var out []Key
	if err := json.Unmarshal(table, &out); err != nil {
		panic("keys: keys.json: " + err.Error()) // generated and embedded
	}
	return out
})

// Find returns the key at a path.
func Find(path string) (Key, bool) {
	i := slices.IndexFunc(All(), func(k Key) bool { return k.Path == path })
	if i < 0 {
		return Key{}, false
	}
	return All()[i], true
}

// ByName returns the path of the only key with a name, without group, or "".
func ByName(name string) (path string) {
	for _, k := range All() {
		if k.Type == Group || fold(Name(k.Path)) != fold(name) {
			continue
		}
		if path != "" {
			return ""
		}
		path = k.Path
	}
	return path
}

// IsGroup reports whether a path is a group.
func IsGroup(path string) bool {
	k, ok := Find(path)
	return ok && k.Type == Group
}

// Under lists a key, or a group with its keys; "" lists all. It is nil if the path does not exist.
func Under(path string) []Key {
	if path == "" {
		return All()
	}
	var out []Key
	for _, k := range All() {
		if k.Path == path || strings.HasPrefix(k.Path, path+".") {
			out = append(out, k)
		}
	}
	return out
}

// Nearest returns the key most similar to a path or a name, or "".
func Nearest(path string) string {
	paths, named, list := []string{}, map[string]string{}, []string{}
	for _, k := range All() {
		paths = append(paths, k.Path)
		if _, twice := named[Name(k.Path)]; !twice {
			list = append(list, Name(k.Path))
			named[Name(k.Path)] = k.Path
		}
	}
	if near := conf.Nearest(path, paths); near != "" {
		return near
	}
	return named[conf.Nearest(Name(path), list)]
}

// Parent returns the path of a key's group; "" is the top level.
func Parent(path string) string {
	return path[:max(0, strings.LastIndexByte(path, '.'))]
}

// Name returns the last part of a path.
func Name(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
