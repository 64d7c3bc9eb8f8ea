// Package repotest holds the rules of this repository as ordinary tests: which package may
// import which, who may use unsafe or read the environment, how packages are named and
// documented, how long a file may be, that everything is formatted and that every example
// configuration loads.
//
// It holds no code for others. The rules are data in layers_test.go; each check is a function
// over a file system, run on this repository and on small trees that break it.
package repotest
