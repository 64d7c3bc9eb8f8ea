package secureconn

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// Mode is the protection of frames. The handshake is the same in all modes.
type Mode uint8

const (
	Encrypt Mode = iota // secret and authenticated: AES-128-GCM
	Sign                // authenticated, readable on the path: GMAC
	Plain               // neither: for loopback, or a network that the user declares safe
)

var modeNames = [...]string{"encrypt", "sign", "plain"}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// Config is the same at both ends.
type Config struct {
	Key  []byte // 32 bytes, from rendezvous.Env.Key
	Mode Mode
}

func (c *Config) validate() error {
	if len(c.Key) != 32 {
		return fmt.Errorf("secureconn: the key has %d bytes, not 32", len(c.Key))
	}
	if c.Mode > Plain {
		return fmt.Errorf("secureconn: unknown %v", c.Mode)
	}
	return nil
}

// ErrStranger is the error of a peer that does not know the key: another program, job, generation or secret.
var ErrStranger = errors.New("secureconn: another program, job or secret")

// ErrKey is an ErrStranger of this protocol: the key differs, by the job's secret, the job or the generation.
var ErrKey = fmt.Errorf("%w: a process of Trireme with another key", ErrStranger)

// Refused is the error of Dial if the listener knows the key but refuses the hello or the mode.
type Refused struct{ Text string }

func (r *Refused) Error() string { return r.Text }

// everyInterface reports whether an address to listen on names no interface.
func everyInterface(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false // Listen reports it
	}
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.Unmap().IsUnspecified()
}
