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
	clock, _ := os.Readlink("/proc/self/ns/time") // before Linux 5.6 there is one
	return string(bytes.TrimSpace(boot)) + " " + pid + " " + network + " " + clock
})

// stateOf returns the state of a process and the signal that stopped it, from /proc/PID/stat. The signal is
// 0 before Linux 5.17. ticks is the processor time so far, in units of 10 ms as a rule.
func stateOf(pid int) (c processState, signal int, ticks int64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return unknown, 0, 0
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // the name may contain spaces and parentheses
	if len(fields) < 13 {
		return unknown, 0, 0
	}
	for _, f := range fields[14-3 : 16-3] { // utime, stime
		n, _ := strconv.ParseInt(string(f), 10, 64) // 0 on error
		ticks += n
	}
	switch fields[0][0] {
	case 'T', 't':
		if exit := 52 - 3; len(fields) > exit {
			signal, _ = strconv.Atoi(string(fields[exit])) // 0 on error
		}
		return stopped, signal & 0x7f, ticks
	case 'Z', 'X', 'x':
		return unknown, 0, 0
	}
	return running, 0, ticks
}
