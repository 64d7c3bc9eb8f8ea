// Package repotest tests the rules of this repository: imports between packages, the use of unsafe and of
// the environment, names and documentation of packages, the length and format of files, words, and that
// every example configuration loads.
//
// It exports nothing. The rules are data in layers_test.go; each check is a function over a file system,
// run on this repository and on small trees that break it.
package repotest
