package tensor

import "fmt"

// AddressSpaceError reports a failure to reserve address space.
type AddressSpaceError struct {
	Bytes int64  // requested
	For   string // such as "a rank's tensors"
	Err   error  // of the operating system, or nil
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
	enough := (used+e.Bytes+headroom)>>20 + 1
	return fmt.Sprintf("the address space is limited to %d MiB (ulimit -v), %d MiB are in use, and %d MiB more are needed for %s. try: ulimit -v unlimited, or at least %d (h_vmem=%dM of a scheduler)",
		limit>>20, used>>20, e.Bytes>>20, e.For, enough<<10, enough)
}

func (e *AddressSpaceError) Unwrap() error { return e.Err }

// headroom is address space for everything but arenas: Go heap, mapped files, thread stacks.
const headroom = 256 << 20

// FreeAddressSpace is the number of bytes available to arenas if the address space is limited.
func FreeAddressSpace() (bytes int64, limited bool) {
	limit, used, limited := AddressSpace()
	return max(0, limit-used-headroom), limited
}
