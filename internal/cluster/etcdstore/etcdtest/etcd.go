package etcdtest

import (
	"net"
	"os/exec"
	"path/filepath"
	"testing"

	"trireme/internal/clustertest"
)

// Server is an etcd on a loopback address.
type Server struct {
	Addr string // HOST:PORT of clients

	t       testing.TB
	program string
	dir     string
	peers   string // address for other servers; there are none
	cmd     *exec.Cmd
}

// Start starts an etcd, which ends with the test. Without the program it skips the test.
func Start(t testing.TB) *Server {
	t.Helper()
	program := clustertest.Program(t, "etcd", "etcd-server")
	s := &Server{t: t, program: program, dir: filepath.Join(t.TempDir(), "etcd")}
	for _, addr := range []*string{&s.Addr, &s.peers} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		*addr = l.Addr().String()
	}
	s.Restart()
	t.Cleanup(s.Kill)
	return s
}

// Restart starts the server again after Kill.
func (s *Server) Restart() {
	s.cmd = exec.Command(s.program)
	clients, peers := "http://"+s.Addr, "http://"+s.peers
	s.cmd.Env = []string{
		"ETCD_DATA_DIR=" + s.dir, "ETCD_LISTEN_CLIENT_URLS=" + clients, "ETCD_ADVERTISE_CLIENT_URLS=" + clients,
		"ETCD_LISTEN_PEER_URLS=" + peers, "ETCD_INITIAL_ADVERTISE_PEER_URLS=" + peers, "ETCD_INITIAL_CLUSTER=default=" + peers,
		"ETCD_HEARTBEAT_INTERVAL=50", "ETCD_ELECTION_TIMEOUT=500",
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// Kill ends the server by SIGKILL.
func (s *Server) Kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}
