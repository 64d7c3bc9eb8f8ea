package rendezvous

import (
	"bytes"
	"net"
	"strconv"
	"testing"
)

type scripted struct {
	net.Conn
	in *bytes.Reader
}

func (s scripted) Read(b []byte) (int, error) { return s.in.Read(b) }

func FuzzChannel(f *testing.F) {
	f.Add(append([]byte{0, 0, 1, 0}, elsewhere.encode()...))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		ch := &channel{Conn: scripted{in: bytes.NewReader(b)}}
		for {
			m, err := ch.receive()
			if err != nil {
				return
			}
			decodeProcess(m)
			decodeMessage(m)
			decodeHello(m)
		}
	})
}

func BenchmarkAllGather(b *testing.B) {
	for _, n := range []int{2, 8} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			stores := mustJoin(b, n)
			defer closeAll(stores)
			for b.Loop() {
				done := make(chan error, n)
				for _, s := range stores {
					go func() { done <- s.Barrier(b.Context(), "k") }()
				}
				for range n {
					if err := <-done; err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
