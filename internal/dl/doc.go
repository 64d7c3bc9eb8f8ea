// Package dl calls functions of shared libraries without cgo, by package purego.
//
// A program with this package is linked to the system's C library, which must be glibc on Linux. The
// build tag static leaves purego out: the program is static and runs without any C library, and Open
// returns ErrStatic.
package dl

import "errors"

// ErrStatic is the error of Open in a program that was built with the tag static.
var ErrStatic = errors.New("this program is static and loads no libraries. try: the program of a release for linux, or go build without -tags static")
