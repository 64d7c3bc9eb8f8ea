package tensor

import "fmt"

// AddressSpaceError is the error for address space that the system does not give.
type AddressSpaceError struct {
	Bytes int64  // that were asked for
	For   string // "a rank's tensors"
	Err   error  // of the system; nil where it was not asked
}

func (e *AddressSpaceError) Error() string {
	limit, used, limited := AddressSpace()
	if !limited {
		which := "-v"
		if dataLimited() {
			which = "-d"
		}
		return fmt.Sprintf("%d MiB of address space for %s: %v. try: ulimit %s unlimited", e.Bytes>>20, e.For, e.Err, which)
	}
	enough := (used+e.Bytes+spare)>>20 + 1
	return fmt.Sprintf("the address space is limited to %d MiB (ulimit -v), %d MiB are in use, and %s would take %d MiB more. try: ulimit -v unlimited, or at least %d (h_vmem=%dM of a scheduler)",
		limit>>20, used>>20, e.For, e.Bytes>>20, enough<<10, enough)
}

func (e *AddressSpaceError) Unwrap() error { return e.Err }

// spare is the address space that a process needs besides its arenas: the collector's heap,
// files that are mapped, stacks of threads.
const spare = 256 << 20

// FreeAddressSpace is the number of bytes that arenas may take of a limited address space.
func FreeAddressSpace() (bytes int64, limited bool) {
	limit, used, limited := AddressSpace()
	return max(0, limit-used-spare), limited
}
