package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"trireme/internal/cluster"
	"trireme/internal/host"
	"trireme/internal/netif"
	"trireme/internal/preflight"
	"trireme/internal/secureconn"
	"trireme/rendezvous"
)

// hostsFlags are the flags of doctor across hosts.
type hostsFlags struct {
	nnodes   int
	nodeRank int
	endpoint string
	config   string
	secret   secretFlags
	timeout  time.Duration
	job      string // the secret that another host sent over ssh
}

func (f *hostsFlags) register(c *cobra.Command) {
	p := c.Flags()
	p.IntVar(&f.nnodes, "nnodes", 1, "check `N` hosts against each other: the same command runs on each")
	p.IntVar(&f.nodeRank, "node_rank", 0, "the position `R` of this host, from 0")
	p.StringVar(&f.endpoint, "rdzv_endpoint", "", "where the hosts meet: `HOST:PORT` of the one with --node_rank 0")
	p.StringVar(&f.config, "config", "", "compare this `FILE` on all hosts")
	f.secret.add(p)
	p.DurationVar(&f.timeout, "timeout", time.Minute, "time limit for hosts to join")
}

// env returns the variables of a rank per host, with the secret of this process's environment.
func (f *hostsFlags) env(ctx context.Context) (rendezvous.Env, error) {
	at, port, err := net.SplitHostPort(f.endpoint)
	if err != nil {
		return rendezvous.Env{}, usage(fmt.Sprintf("--rdzv_endpoint %q is not HOST:PORT", f.endpoint), "--rdzv_endpoint ADDRESS:29400 of the host with --node_rank 0")
	}
	if f.nodeRank < 0 || f.nodeRank >= f.nnodes {
		return rendezvous.Env{}, usage(fmt.Sprintf("--node_rank is %d, not 0 to %d", f.nodeRank, f.nnodes-1), "")
	}
	if f.nodeRank == 0 {
		if at, err = cluster.ServedAt(ctx, at); err != nil {
			return rendezvous.Env{}, &Exit{CodeUsage, err}
		}
	}
	set := map[string]string{
		"RANK": strconv.Itoa(f.nodeRank), "WORLD_SIZE": strconv.Itoa(f.nnodes), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
		"MASTER_ADDR": at, "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "doctor",
	}
	if rendezvous.IsLoopback(at) {
		set[rendezvous.LoopbackVar] = "1"
	}
	env, err := rendezvous.Read(func(name string) (string, bool) {
		if v, ok := set[name]; ok {
			return v, true
		}
		switch {
		case f.job != "":
			return f.job, name == rendezvous.SecretVar
		}
		switch name {
		case rendezvous.SecretFDVar, rendezvous.SecretFileVar, rendezvous.SecretVar, rendezvous.InsecureVar:
			return f.secret.lookup(name)
		}
		return "", false
	})
	if err != nil {
		return env, &Exit{CodeUsage, err}
	}
	return env, nil
}

// checkHosts checks this host against the others and returns the report of all, or of this one if it cannot
// join them.
func (f *hostsFlags) checkHosts(ctx context.Context, dir string, note func(string)) (r *preflight.Report, err error) {
	env, err := f.env(ctx)
	if err != nil {
		return nil, err
	}
	digest, err := fileDigest(f.config)
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	facts := host.Read(ctx, host.Config{Program: readVersion().Version, Dir: dir})
	name := facts.Name
	if name == "" {
		name = "host " + strconv.Itoa(f.nodeRank)
	}
	began := time.Now()
	store, r, err := f.join(ctx, env, name, facts, note)
	if err != nil || r != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var lost *rendezvous.Failure
	if err := store.Rendezvous(ctx); errors.As(err, &lost) && lost.Rank >= 0 && errors.Is(err, rendezvous.ErrTimeout) {
		return preflight.NotJoined(name, f.endpoint, facts, fmt.Sprintf("the host with --node_rank %d", lost.Rank), time.Since(began)), nil
	} else if err != nil {
		return nil, err
	}
	mode := secureconn.Encrypt
	if env.Insecure && env.Secret == nil {
		mode = secureconn.Plain
	}
	key, err := store.Key("preflight")
	if err != nil {
		return nil, err
	}
	address, err := netif.Chosen("", os.LookupEnv).Address(store.Addr())
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	return preflight.Run(ctx, preflight.Config{
		Exchange: store, Index: f.nodeRank, N: f.nnodes, Name: name, Address: address, Key: key, Mode: mode, Digest: digest, Facts: facts, Limit: min(f.timeout, 15*time.Second),
	})
}

// join connects this host to the others, or returns a report that says why it cannot.
func (f *hostsFlags) join(ctx context.Context, env rendezvous.Env, name string, facts host.Facts, note func(string)) (*rendezvous.Store, *preflight.Report, error) {
	limited, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	var watcher *preflight.Watcher
	if env.Rank > 0 {
		key, err := env.Key("store") // without a secret it is another one, which is not found to be wrong
		if err != nil {
			return nil, nil, err
		}
		watcher = preflight.Watch(limited, f.endpoint, secureconn.Config{Key: key}, cancel)
	}
	store, err := rendezvous.Connect(limited, env, rendezvous.Config{Timeout: f.timeout, Heartbeat: f.timeout, Note: note})
	cancel()
	if err == nil || watcher == nil || ctx.Err() != nil {
		return store, nil, err
	}
	return nil, watcher.Report(ctx, name, facts, err), nil
}

// fileDigest returns the SHA-256 of a file; empty for none.
func fileDigest(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
