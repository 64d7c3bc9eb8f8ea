//go:build !linux

package tensor

// AddressSpace returns the process's address space limit and use, in bytes. limited is false if
// unknown.
func AddressSpace() (limit, used int64, limited bool) { return 0, 0, false }

// dataLimited reports whether private memory is limited.
func dataLimited() bool { return false }
