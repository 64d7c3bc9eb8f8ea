package secureconn

import (
	"context"
	"fmt"
	"net"
	"time"
)

// Dial connects to a listener of this job, once. It ends with ctx or after 5 seconds without progress. The error
// is ErrStranger if something else listens there, and *Refused if the listener refuses this hello.
func Dial(ctx context.Context, addr string, cfg Config, hello []byte) (*Conn, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if len(hello) > MaxHello {
		return nil, fmt.Errorf("secureconn: a hello of %d bytes, the limit is %d", len(hello), MaxHello)
	}
	d := net.Dialer{Timeout: handshakeTime, KeepAlive: -1}
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if raw.LocalAddr().String() == raw.RemoteAddr().String() {
		raw.Close() // a connection to itself: nothing listens on the port
		return nil, ErrStranger
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() }) // ends the handshake
	c, err := dial(raw, &cfg, hello, time.Now().Add(handshakeTime))
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	keepAlives(raw)
	return c, nil
}
