package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

const (
	streamBytes = 256 << 10 // of a call, and of a buffer that stays in the cache
	memoryBytes = 64 << 20  // of a buffer in memory
)

// stream is one end of a plain stream: serve or dial, address, one or both directions, bytes of each buffer, seconds.
// The dialer sends. A sender prints its GB/s.
func stream(args []string) error {
	if len(args) != 5 {
		return errors.New("usage: stream serve|dial ADDR one|both BYTES SECONDS")
	}
	size, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseFloat(args[4], 64)
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
		sent <- send(c, touched(size), time.Duration(seconds*float64(time.Second)))
	}()
	if receives {
		err = receive(c, touched(size))
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

// touched returns a buffer of n bytes in memory of its own.
func touched(n int) []byte { return bytes.Repeat([]byte{1}, n) }

// receive reads to one part of b after another.
func receive(c *net.TCPConn, b []byte) error {
	for at := 0; ; at = (at + streamBytes) % len(b) {
		if _, err := io.ReadFull(c, b[at:][:streamBytes]); err != nil {
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				return nil
			}
			return err
		}
	}
}

// send writes one part of b after another.
func send(c *net.TCPConn, b []byte, d time.Duration) error {
	n, began := 0, time.Now()
	for time.Since(began) < d {
		k, err := c.Write(b[n%len(b):][:streamBytes])
		if err != nil {
			return err
		}
		n += k
	}
	fmt.Println(float64(n) / time.Since(began).Seconds() / 1e9)
	return c.CloseWrite()
}
