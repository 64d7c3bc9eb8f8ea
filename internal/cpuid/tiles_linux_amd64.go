package cpuid

import "golang.org/x/sys/unix"

// requestTiles requests permission for the tile registers. Linux requires it because they add 8 KiB
// to a thread's state (Documentation/arch/x86/xstate.rst).
func requestTiles() bool {
	const requestPermission, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
}
