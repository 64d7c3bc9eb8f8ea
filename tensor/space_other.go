//go:build !linux

package tensor

// AddressSpace says how many bytes of address space this process may have, and how many it has
// now. limited is false where that is not known.
func AddressSpace() (limit, used int64, limited bool) { return 0, 0, false }

// dataLimited reports whether private memory is known to have a limit.
func dataLimited() bool { return false }
