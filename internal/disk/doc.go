// Package disk keeps in files what does not fit memory while a run goes on: optimizer state,
// parameters, inputs of layers. It is no place to save anything: what a File holds is gone when
// it is closed, or when the process ends, however that happens.
//
// Create makes a File in a directory, without a name where the system can do that, and past the
// system's cache (O_DIRECT) where the file system takes that: the cache would take the memory that
// off-loading is to spare. Reserve takes space for something, at once, so that a full disk is an
// error before a run begins and not in its middle. A Section is read and written at any place and
// length; Start does so behind the caller. What lies at whole blocks, from memory that begins at a
// page, goes straight to the device; the rest by way of a small buffer.
package disk
