package numa

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxCPUs is the largest number of processors that Linux can be built for.
const maxCPUs = 8192

// CPUs are numbers of processors, ascending and distinct.
type CPUs []int

// ParseList parses Linux's format of lists, such as 0-3,8. An empty text is no processor.
func ParseList(text string) (CPUs, error) {
	var has [maxCPUs]bool
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, ranged := strings.Cut(part, "-")
		first, err := strconv.ParseUint(from, 10, 16)
		last := first
		if ranged && err == nil {
			last, err = strconv.ParseUint(to, 10, 16)
		}
		if err != nil || last < first || last >= maxCPUs {
			return nil, fmt.Errorf("numa: %.40q is no processor below %d, and no range of them", part, maxCPUs)
		}
		for cpu := first; cpu <= last; cpu++ {
			has[cpu] = true
		}
	}
	var all CPUs
	for cpu, ok := range has {
		if ok {
			all = append(all, cpu)
		}
	}
	return all, nil
}

// String formats c as ParseList reads it.
func (c CPUs) String() string {
	var b strings.Builder
	for i := 0; i < len(c); {
		n := 1
		for i+n < len(c) && c[i+n] == c[i]+n {
			n++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(c[i]))
		if n > 1 {
			fmt.Fprintf(&b, "-%d", c[i+n-1])
		}
		i += n
	}
	return b.String()
}

func (c CPUs) has(cpu int) bool {
	_, ok := slices.BinarySearch(c, cpu)
	return ok
}
