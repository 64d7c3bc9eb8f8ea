// Package keys is the reference of the configuration: each key's type, default, values and
// meaning, and the names that other programs give it.
//
// The table is generated from the comments of the fields that hold the configuration, so that
// the program can print it without its sources:
//
//	go generate ./internal/keys
//
// writes keys.json, which is embedded, and docs/configuration.md. A test of the generator fails
// when either is stale.
package keys

//go:generate go run ./generate
