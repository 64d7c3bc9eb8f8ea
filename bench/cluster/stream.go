package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

const streamBytes = 256 << 10

// stream is one end of a plain stream: serve or dial, address, one or both directions, seconds. The dialer
// sends. A sender prints its GB/s.
func stream(args []string) error {
	if len(args) != 4 {
		return errors.New("usage: stream serve|dial ADDR one|both SECONDS")
	}
	seconds, err := strconv.ParseFloat(args[3], 64)
	if err != nil {
		return err
	}
	c, err := streamConn(args[0], args[1])
	if err != nil {
		return err
	}
	defer c.Close()
	sends, receives := args[0] == "dial" || args[2] == "both", args[0] == "serve" || args[2] == "both"
	sent := make(chan error, 1)
	go func() {
		if !sends {
			sent <- nil
			return
		}
		sent <- send(c, time.Duration(seconds*float64(time.Second)))
	}()
	if receives {
		_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, streamBytes))
	}
	return errors.Join(err, <-sent)
}

func streamConn(role, addr string) (*net.TCPConn, error) {
	if role == "serve" {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, err
		}
		defer l.Close()
		c, err := l.Accept()
		if err != nil {
			return nil, err
		}
		return c.(*net.TCPConn), nil
	}
	for end := time.Now().Add(dialTime); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			return c.(*net.TCPConn), nil
		}
		if time.Now().After(end) {
			return nil, err
		}
	}
}

func send(c *net.TCPConn, d time.Duration) error {
	b := make([]byte, streamBytes)
	n, began := 0, time.Now()
	for time.Since(began) < d {
		k, err := c.Write(b)
		if err != nil {
			return err
		}
		n += k
	}
	fmt.Println(float64(n) / time.Since(began).Seconds() / 1e9)
	return c.CloseWrite()
}
