package tcp

// hosts returns the group ranks of each host, or nil if no ranks share memory, and those of the caller's host.
// Ranks of a host share memory if they are adjacent in the group on every host, as launchers arrange them: sums
// are made in rank order, and would pass a host several times otherwise.
func (t *transport) hosts(ranks []int, me int) (hosts [][]int, local []int) {
	if t.local == nil {
		return nil, nil
	}
	seen, mine := map[uint32]bool{}, 0
	for i, r := range ranks {
		h := t.addrs[r].host
		if i == 0 || h != t.addrs[ranks[i-1]].host {
			if seen[h] {
				return nil, nil
			}
			seen[h] = true
			hosts = append(hosts, nil)
		}
		last := len(hosts) - 1
		hosts[last] = append(hosts[last], i)
		if i == me {
			mine = last
		}
	}
	if len(hosts) == len(ranks) {
		return nil, nil
	}
	return hosts, hosts[mine]
}
