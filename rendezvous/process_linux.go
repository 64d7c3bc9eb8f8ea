package rendezvous

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
)

var space = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	ns, nsErr := os.Readlink("/proc/self/ns/pid")
	if err != nil || nsErr != nil {
		return ""
	}
	return string(bytes.TrimSpace(boot)) + " " + ns
})

// look reads /proc/PID/stat: the state, and the signal that stopped the process where the kernel
// says it (Linux 5.17 on), else 0.
func look(pid int) (c condition, signal int) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return unseen, 0
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // the name before may hold anything
	if len(fields) == 0 {
		return unseen, 0
	}
	switch fields[0][0] {
	case 'T', 't':
		if exit := 52 - 3; len(fields) > exit {
			signal, _ = strconv.Atoi(string(fields[exit])) // 0 where it is no number
		}
		return stopped, signal & 0x7f
	case 'Z', 'X', 'x':
		return unseen, 0
	}
	return runs, 0
}
