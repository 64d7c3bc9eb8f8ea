// Package torchfile reads the files of torch.save (.pt, .pth, .bin) without PyTorch and without
// running code, and writes the small ones that are parts of a distributed checkpoint.
//
// A file is a zip archive (PyTorch 1.6 and newer) with uncompressed entries: data.pkl, a pickle of
// the saved value with storages as persistent ids; data/KEY, the bytes of each storage; byteorder
// and version. Open reads the pickle. A Tensor reads ranges of its storage when asked, so a file of
// any size needs memory for its pickle only.
//
// Input is untrusted. Calls in the pickle are limited to those that rebuild tensors and Python's
// containers, plus Options.Allow; others are refused by name. Objects of unknown classes are read as
// their fields. The checksum of a storage is verified before its first bytes are returned.
package torchfile
