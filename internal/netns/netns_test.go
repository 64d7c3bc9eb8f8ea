package netns

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestMain is also a host's program: dial ADDR prints what it reads; serve ADDR N writes N bytes to each connection.
func TestMain(m *testing.M) {
	switch os.Getenv("NETNS_ROLE") {
	case "serve":
		l, err := net.Listen("tcp", os.Args[1])
		if err != nil {
			panic(err)
		}
		fmt.Println("listening")
		for {
			c, err := l.Accept()
			if err != nil {
				panic(err)
			}
			go func() {
				c.Write(make([]byte, 1<<20))
				c.Close()
			}()
		}
	case "dial":
		c, err := net.DialTimeout("tcp", os.Args[1], time.Second)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		c.SetReadDeadline(time.Now().Add(20 * time.Second))
		began := time.Now()
		n, err := io.Copy(io.Discard, c)
		name, _ := os.Hostname()
		fmt.Println(name, n, err, time.Since(began).Milliseconds() > 500)
		return
	}
	os.Exit(m.Run())
}

func TestHosts(t *testing.T) {
	m := New(t, 2)
	a, b := m.Hosts[0], m.Hosts[1]
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := a.Command(ctx, exe, "0.0.0.0:7000")
	server.Env = append(os.Environ(), "NETNS_ROLE=serve")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		server.Wait()
	}()
	if _, err := io.ReadFull(out, make([]byte, len("listening"))); err != nil {
		t.Fatal(err)
	}
	dial := func(want string) {
		t.Helper()
		c := b.Command(ctx, exe, "node0:7000")
		c.Env = append(os.Environ(), "NETNS_ROLE=dial")
		got, err := c.CombinedOutput()
		if _, exited := err.(*exec.ExitError); err != nil && !exited {
			t.Fatal(err)
		}
		if !strings.Contains(string(got), want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const arrives = "node1 1048576 <nil> false"
	dial(arrives)
	do(a.Cut())
	dial("i/o timeout")
	do(a.Restore())
	dial(arrives)
	do(b.SetDown())
	dial("unreachable")
	do(b.SetUp())
	dial(arrives)
	do(a.Block(b))
	dial("i/o timeout")
	do(a.Unblock(b))
	do(b.SetMTU(1200))
	dial(arrives)
	do(a.Limit(8 << 20))
	dial("node1 1048576 <nil> true")
	do(a.Limit(0))
	dial(arrives)
	if err := exec.Command("kill", "-0", fmt.Sprint(server.Process.Pid)).Run(); err != nil {
		t.Errorf("the command's process is not the program: %v", err)
	}
}
