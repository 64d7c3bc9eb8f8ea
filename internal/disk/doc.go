// Package disk offloads optimizer state, parameters and layer inputs to files during a run. A File is
// temporary: it disappears when it is closed or the process exits.
//
// Create makes a File in a directory, unnamed and with O_DIRECT where supported, since the page cache
// would use the memory that offload is to free. Reserve allocates space at once, so that a full disk is
// an error before training starts. A Section is read and written at any offset and length, also in the
// background. Whole blocks at page-aligned memory are transferred directly, others through a small
// buffer.
//
// A Sequential writes a named file in order, past the page cache too: a checkpoint is large and rarely read again.
package disk
