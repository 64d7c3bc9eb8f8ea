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

// pending has the connections that are not authenticated, oldest first, by the address of their peer.
type pending struct {
	from  map[netip.Addr][]net.Conn
	count int
}

func newPending() pending { return pending{from: map[netip.Addr][]net.Conn{}} }

func source(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// add adds a connection. Above a limit it resets another: the oldest of the same address, or of the address
// with the most. A true peer ends its handshake long before, and dials again if it does not.
func (p *pending) add(c net.Conn) {
	a := source(c)
	p.from[a] = append(p.from[a], c)
	p.count++
	if len(p.from[a]) > maxPerSource {
		p.evict(a)
	}
	if p.count > maxPending {
		most := a
		for b, cs := range p.from {
			if len(cs) > len(p.from[most]) {
				most = b
			}
		}
		p.evict(most)
	}
}

func (p *pending) evict(a netip.Addr) {
	c := p.from[a][0]
	p.remove(c)
	reset(c)
}

// remove removes a connection; one that was evicted is absent.
func (p *pending) remove(c net.Conn) {
	a := source(c)
	cs := p.from[a]
	i := slices.Index(cs, c)
	if i < 0 {
		return
	}
	p.count--
	if cs = slices.Delete(cs, i, i+1); len(cs) == 0 {
		delete(p.from, a)
		return
	}
	p.from[a] = cs
}

func (p *pending) closeAll() {
	for _, cs := range p.from {
		for _, c := range cs {
			reset(c)
		}
	}
}

// reset closes a connection without the states that follow a normal end.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	c.Close()
}
