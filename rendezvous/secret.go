package rendezvous

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"trireme/fault"
)

// The variables of the job's secret: an inherited descriptor's number, the path of a file readable only by
// its owner, or the secret itself. The first one that is set is used.
const (
	SecretFDVar   = "TRIREME_JOB_SECRET_FD"
	SecretFileVar = "TRIREME_JOB_SECRET_FILE"
	SecretVar     = "TRIREME_JOB_SECRET"
)

// InsecureVar is the variable that sets Env.Insecure, if it is 1. The flag --insecure sets it.
const InsecureVar = "TRIREME_INSECURE"

const (
	minSecret = 16
	maxSecret = 4096
)

// ReadSecret reads the job's secret of these variables; nil without one.
func ReadSecret(lookup func(string) (string, bool)) ([]byte, error) {
	if v, ok := lookup(SecretFDVar); ok {
		fd, err := strconv.Atoi(v)
		if err != nil || fd < 3 {
			return nil, fmt.Errorf("rendezvous: %s=%q is not a file descriptor", SecretFDVar, v)
		}
		// Open it by name, to leave the inherited descriptor to children.
		f, err := os.Open("/dev/fd/" + v)
		if err != nil {
			return nil, fmt.Errorf("rendezvous: %s=%s is not open: start the worker directly, or set %s: %w", SecretFDVar, v, SecretFileVar, err)
		}
		return secretOf(f, SecretFDVar)
	}
	if path, ok := lookup(SecretFileVar); ok {
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // do not block on a FIFO
		if err != nil {
			return nil, fmt.Errorf("rendezvous: %s: %w", SecretFileVar, err)
		}
		if st, err := f.Stat(); err == nil && st.Mode().Perm()&0o077 != 0 {
			f.Close()
			return nil, fault.Try(fmt.Errorf("rendezvous: %s is readable by others (mode %#o)", path, st.Mode().Perm()), "chmod 600 %s", path)
		}
		return secretOf(f, SecretFileVar)
	}
	if v, ok := lookup(SecretVar); ok {
		if len(v) < minSecret || len(v) > maxSecret {
			return nil, fmt.Errorf("rendezvous: %s has %d bytes, not %d to %d", SecretVar, len(v), minSecret, maxSecret)
		}
		return []byte(v), nil
	}
	return nil, nil
}

// ReadInsecure reads InsecureVar.
func ReadInsecure(lookup func(string) (string, bool)) (bool, error) {
	v, ok := lookup(InsecureVar)
	switch {
	case !ok || v == "" || v == "0":
		return false, nil
	case v == "1":
		return true, nil
	}
	return false, fault.Try(fmt.Errorf("rendezvous: %s=%q", InsecureVar, v), "%s=1, or unset it", InsecureVar)
}

func secretOf(f *os.File, name string) ([]byte, error) {
	defer f.Close()
	// ReadAt, because opening /dev/fd may share the descriptor's position.
	b := make([]byte, maxSecret+1)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("rendezvous: read the secret of %s: %w", name, err)
	}
	if n < minSecret || n > maxSecret {
		return nil, fmt.Errorf("rendezvous: the secret of %s has %d bytes, not %d to %d", name, n, minSecret, maxSecret)
	}
	return b[:n], nil
}

// noSecretKey is in place of a secret with Env.Insecure: anyone can join, but ranks of other jobs and attempts
// are still refused.
var noSecretKey = []byte("insecure")

// Key derives the key of this job and attempt for one purpose, 32 bytes. Derived keys are independent. e.Secret
// must be set; otherwise use Store.Key.
func (e Env) Key(purpose string) ([]byte, error) {
	info := fmt.Sprintf("trireme 1\x00%s\x00%s\x00%d", purpose, e.RunID, e.RestartCount)
	return hkdf.Key(sha256.New, e.Secret, nil, info, 32)
}
