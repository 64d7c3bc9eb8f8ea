// Command release builds the files of a release: for each platform an archive with the program,
// shell completions, man pages and licenses, and a CycloneDX bill of materials; then SHA256SUMS of
// all of them. `make dist` runs it.
//
// The files are reproducible: the same commit and the same version of Go give the same bytes in any
// directory, on any machine and at any time. On Linux the program needs glibc, with which it loads the
// libraries of accelerators; with -tags static, for the image, it needs nothing and loads none. Binaries are built with -trimpath, without cgo and
// without a build id. Archives have sorted names, no owner, and the time of the commit on every file.
//
// To release: date the version in CHANGELOG.md, commit, tag the commit with that version, run
// `make dist` in a clean clone at the tag, and publish the files. Then set cli.Next and the head of
// the changelog to the version after it.
package main
