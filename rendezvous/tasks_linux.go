package rendezvous

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// hydraProxy returns the process that serves this host's processes of one mpirun of MPICH or Intel MPI:
// the creator of the socket PMI_FD. It is 0 if unknown.
func hydraProxy(fd string) int {
	n, err := strconv.Atoi(fd)
	if err != nil || n < 3 {
		return 0
	}
	peer, err := unix.GetsockoptUcred(n, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0
	}
	return int(peer.Pid)
}
