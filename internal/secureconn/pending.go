package secureconn

import (
	"net"
	"net/netip"
	"slices"
)

// Limits of connections that are not authenticated.
const (
	maxPending   = 256
	maxPerSource = 128
)

// pending has the connections that are not authenticated, oldest first, and their number by address.
type pending struct {
	conns []net.Conn
	from  map[netip.Addr]int
}

func newPending() pending { return pending{from: map[netip.Addr]int{}} }

func source(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// add adds a connection. Above a limit it resets another: the oldest of the same address, or the oldest of the
// addresses with the most. A true peer ends its handshake long before, and dials again if it does not.
func (p *pending) add(c net.Conn) {
	a := source(c)
	p.conns = append(p.conns, c)
	p.from[a]++
	if p.from[a] > maxPerSource {
		p.evict(p.from[a])
	}
	if len(p.conns) > maxPending {
		most := 0
		for _, n := range p.from {
			most = max(most, n)
		}
		p.evict(most)
	}
}

// evict resets the oldest connection of an address with n.
func (p *pending) evict(n int) {
	for _, c := range p.conns {
		if p.from[source(c)] == n {
			p.remove(c)
			reset(c)
			return
		}
	}
}

// remove removes a connection; one that was evicted is absent.
func (p *pending) remove(c net.Conn) {
	i := slices.Index(p.conns, c)
	if i < 0 {
		return
	}
	p.conns = slices.Delete(p.conns, i, i+1)
	a := source(c)
	if p.from[a]--; p.from[a] == 0 {
		delete(p.from, a)
	}
}

func (p *pending) closeAll() {
	for _, c := range p.conns {
		reset(c)
	}
}

// reset closes a connection without the states that follow a normal end.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	c.Close()
}
