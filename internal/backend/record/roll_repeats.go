package record

// run is a maximal range of operations in which each is alike to the one period before it.
type run struct{ lo, hi, period int }

// repeats lists the runs of at least two periods in ids. Runs of less than three periods may be
// missing if their periods have repeats within.
//
// Equal strings of k ids, for k a power of two, give the candidates: the next occurrence of a
// string within a run of three periods, with k/2 < period <= k, is a period away.
func repeats(ids []int) (out []run) {
	n := len(ids)
	names := append([]int(nil), ids...) // of the strings of k ids that start at each index
	for k := 1; k <= n; k *= 2 {
		end := map[int]int{}  // per period, end of the newest run
		last := map[int]int{} // per name, its newest index
		repeated := false
		for i := range n - k + 1 {
			before, seen := last[names[i]]
			last[names[i]] = i
			if !seen {
				continue
			}
			repeated = true
			d := i - before
			if 2*d <= k || d >= 2*k || i < end[d] {
				continue
			}
			lo, hi := before, i+k
			for lo > 0 && ids[lo-1] == ids[lo-1+d] {
				lo--
			}
			for hi < n && ids[hi-d] == ids[hi] {
				hi++
			}
			end[d] = hi
			if hi-lo >= 2*d {
				out = append(out, run{lo, hi, d})
			}
		}
		if !repeated {
			break
		}
		type pair struct{ a, b int }
		numbers := map[pair]int{}
		for i := range n - 2*k + 1 {
			two := pair{names[i], names[i+k]}
			if _, ok := numbers[two]; !ok {
				numbers[two] = len(numbers)
			}
			names[i] = numbers[two]
		}
	}
	return out
}
