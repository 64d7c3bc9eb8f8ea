package rendezvous

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// expandNodes returns the names of a Slurm node list: "n[01-03,7],m1" is n01, n02, n03, n7, m1. A name may
// have several brackets.
func expandNodes(list string) ([]string, error) {
	var all []string
	for list != "" {
		item, rest, err := cutItem(list)
		if err != nil {
			return nil, err
		}
		names, err := expandItem(item, maxWorld-len(all))
		if err != nil {
			return nil, err
		}
		all, list = append(all, names...), rest
	}
	if len(all) == 0 {
		return nil, errors.New("it is empty")
	}
	return all, nil
}

// cutItem splits a list at its first comma outside brackets.
func cutItem(list string) (item, rest string, err error) {
	inside := false
	for i, c := range []byte(list) {
		switch {
		case c == '[' && !inside:
			inside = true
		case c == ']' && inside:
			inside = false
		case c == '[', c == ']':
			return "", "", fmt.Errorf("unexpected %q", c)
		case c == ',' && !inside:
			if i == 0 || i == len(list)-1 {
				return "", "", errors.New("it has an empty name")
			}
			return list[:i], list[i+1:], nil
		}
	}
	if inside {
		return "", "", errors.New("it has no ] for [")
	}
	return list, "", nil
}

// expandItem expands the brackets of one item to up to limit names.
func expandItem(item string, limit int) ([]string, error) {
	names := []string{""}
	for item != "" {
		prefix, rest, ok := strings.Cut(item, "[")
		numbers := []string{""}
		if ok {
			var inside string
			inside, rest, _ = strings.Cut(rest, "]")
			var err error
			if numbers, err = expandRanges(inside, limit); err != nil {
				return nil, err
			}
		}
		if len(names)*len(numbers) > limit {
			return nil, fmt.Errorf("it has more than %d names", maxWorld)
		}
		longer := make([]string, 0, len(names)*len(numbers))
		for _, n := range names {
			for _, d := range numbers {
				longer = append(longer, n+prefix+d)
			}
		}
		names, item = longer, rest
	}
	return names, nil
}

// expandRanges expands "01-03,7". Numbers have the width of the first one of their range.
func expandRanges(text string, limit int) ([]string, error) {
	var all []string
	for r := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(r, "-")
		if !isRange {
			last = first
		}
		lo, err := strconv.ParseUint(first, 10, 62)
		hi, err2 := strconv.ParseUint(last, 10, 62)
		switch {
		case err != nil || err2 != nil || hi < lo || len(first) > 64:
			return nil, fmt.Errorf("%q is not a range of numbers", r)
		case hi-lo >= uint64(limit-len(all)):
			return nil, fmt.Errorf("it has more than %d names", maxWorld)
		}
		for n := lo; n <= hi; n++ {
			all = append(all, fmt.Sprintf("%0*d", len(first), n))
		}
	}
	return all, nil
}

// expandCounts returns the tasks per node of Slurm's "2(x3),1": 2, 2, 2, 1.
func expandCounts(text string) ([]int, error) {
	var all []int
	for item := range strings.SplitSeq(text, ",") {
		digits, times, repeated := strings.Cut(strings.TrimSuffix(item, ")"), "(x")
		if repeated != strings.HasSuffix(item, ")") {
			return nil, fmt.Errorf("%q is not a number of tasks", item)
		}
		if !repeated {
			times = "1"
		}
		n, err := strconv.Atoi(digits)
		k, err2 := strconv.Atoi(times)
		if err != nil || err2 != nil || n < 1 || k < 1 || k > maxWorld-len(all) || n > maxWorld {
			return nil, fmt.Errorf("%q is not a number of tasks", item)
		}
		for range k {
			all = append(all, n)
		}
	}
	return all, nil
}
