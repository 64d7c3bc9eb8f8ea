// Package servertest tests checkpoints, and runs with data and models, against a real object store: versitygw, built from
// its module, which keeps objects in a directory. A proxy between them cuts, delays and refuses requests. The store's
// dependencies are those of this module alone.
package servertest
