package rendezvous

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
)

var namespaces = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	pid, pidErr := os.Readlink("/proc/self/ns/pid")
	network, networkErr := os.Readlink("/proc/self/ns/net")
	if err != nil || pidErr != nil || networkErr != nil {
		return ""
	}
	return string(bytes.TrimSpace(boot)) + " " + pid + " " + network
})

// stateOf returns the state of a process and the signal that stopped it, from /proc/PID/stat. The signal is
// 0 before Linux 5.17.
func stateOf(pid int) (c processState, signal int) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return unknown, 0
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // the name may contain spaces and parentheses
	if len(fields) == 0 {
		return unknown, 0
	}
	switch fields[0][0] {
	case 'T', 't':
		if exit := 52 - 3; len(fields) > exit {
			signal, _ = strconv.Atoi(string(fields[exit])) // 0 on error
		}
		return stopped, signal & 0x7f
	case 'Z', 'X', 'x':
		return unknown, 0
	}
	return running, 0
}
