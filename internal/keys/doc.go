// Package keys is the reference of configuration keys: type, default, values and meaning, and their names
// in other programs.
//
// The table is generated from the comments of configuration fields:
//
//	go generate ./internal/keys
//
// writes keys.json, which is embedded, and docs/configuration.md. A test fails if either is stale.
package keys

//go:generate go run ./generate
