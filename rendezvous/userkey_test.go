package rendezvous

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"trireme/internal/secureconn"
)

// Without a secret, a client that knows everything public is refused and disturbs no rank.
func TestStrangerOnLoopback(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	envs := world(t, 2)
	for i := range envs {
		envs[i].Secret = nil
	}
	done := make(chan error, 1)
	var first *Store
	go func() {
		var err error
		first, err = Join(t.Context(), envs[0], Config{})
		done <- err
	}()
	public, err := envs[1].Key("store") // derived from the job id only
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if ch, err := dial(ctx, candidates("127.0.0.1", envs[0].MasterPort), secureconn.Config{Key: public}, hello{1, 2}, thisProcess(), func(string) {}); err == nil {
		ch.Close()
		t.Error("a client without the secret joined as rank 1")
	} else if !strings.Contains(err.Error(), "another program or job answers") {
		t.Error(err)
	}
	second, err := Join(t.Context(), envs[1], Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	a, _ := first.Key("p")
	if b, _ := second.Key("p"); !bytes.Equal(a, b) || bytes.Equal(a, public) {
		t.Error("the ranks' keys differ, or are public")
	}
	closeAll([]*Store{first, second})
}

// Another user of the machine can neither read nor replace the key.
func TestAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can act as another user")
	}
	base, err := os.MkdirTemp("", "another")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	os.Chmod(base, 0o777|os.ModeSticky) // like /tmp
	exe := filepath.Join(base, "exe")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(self); err != nil || os.WriteFile(exe, b, 0o755) != nil {
		t.Fatal(err)
	}
	steal := func(dir string) string {
		c := exec.Command(exe)
		c.Env = append(os.Environ(), roleVar+"=steal", "RENDEZVOUS_TEST_DIR="+dir)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatal(err, string(out))
		}
		return string(out)
	}
	ours := filepath.Join(base, "ours")
	if _, err := userSecretIn(ours); err != nil {
		t.Fatal(err)
	}
	if said := steal(ours); !strings.HasPrefix(said, " ") || !strings.Contains(said, "permission denied") {
		t.Error(said)
	}
	theirs := filepath.Join(base, "theirs") // created by another user in advance
	if said := steal(theirs); !strings.Contains(said, "<nil>") {
		t.Fatal(said)
	}
	if b, err := userSecretIn(theirs); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("%x, %v", b, err)
	}
}

func TestUserSecret(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "d")
	var wg sync.WaitGroup
	all := make([][]byte, 16)
	for i := range all { // created once by concurrent calls
		wg.Go(func() {
			var err error
			if all[i], err = userSecretIn(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, b := range all {
		if len(b) != userKeySize || !bytes.Equal(b, all[0]) {
			t.Fatalf("%x, %x", b, all[0])
		}
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Error(names)
	}
	key := filepath.Join(dir, userKeyName)
	if st, err := os.Stat(key); err != nil || st.Mode().Perm() != 0o600 {
		t.Error(st, err)
	}
	for name, spoil := range map[string]func(){
		"key others can read":   func() { os.Chmod(key, 0o640) },
		"directory others read": func() { os.Chmod(dir, 0o750) },
		"short key":             func() { os.WriteFile(key, []byte("short"), 0o600) },
		"link to another file": func() {
			os.Remove(key)
			other := filepath.Join(base, "other")
			os.WriteFile(other, make([]byte, userKeySize), 0o600)
			os.Symlink(other, key)
		},
		"FIFO": func() { os.Remove(key); syscall.Mkfifo(key, 0o600) },
		"directory of another user": func() {
			if os.Getuid() == 0 {
				os.Chown(dir, 65534, 65534)
			} else {
				os.Chmod(dir, 0o777)
			}
		},
	} {
		os.RemoveAll(dir)
		if _, err := userSecretIn(dir); err != nil {
			t.Fatal(err)
		}
		spoil()
		if b, err := userSecretIn(dir); err == nil {
			t.Errorf("%s: %x", name, b)
		}
	}
}
