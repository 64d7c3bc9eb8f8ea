package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"trireme/collective/mpi"
	"trireme/internal/netif"
	"trireme/rendezvous"
)

// shareTime limits the wait for the other processes of mpirun when they start.
const shareTime = time.Minute

// sharedByMPI is the value of a process of mpirun for the others. Only rank 0 has an address and a secret.
type sharedByMPI struct {
	Host, Addr, Secret, RunID string
}

// shareByMPI returns lookup with what the processes of mpirun on several hosts lack: their hosts, and from rank 0
// its address and a new secret. They travel by MPI, whose processes mpirun authenticates to each other as far as
// it does. Variables of the user come first. The error says why MPI cannot do it.
func shareByMPI(lookup func(string) (string, bool)) (func(string) (string, bool), error) {
	has := func(name string) bool { _, ok := lookup(name); return ok }
	t, err := rendezvous.ReadTasks(lookup)
	if err != nil || t == nil || t.Launcher != "mpirun" || t.LocalSize == t.Size || has("RANK") && has("WORLD_SIZE") {
		return lookup, nil // rendezvous.Read reports errors
	}
	secret := has(rendezvous.SecretVar) || has(rendezvous.SecretFileVar) || has(rendezvous.SecretFDVar) || has(rendezvous.InsecureVar)
	mine := sharedByMPI{RunID: t.RunID}
	if mine.Host, err = os.Hostname(); err != nil {
		return lookup, err
	}
	if t.Rank == 0 {
		key := make([]byte, 32)
		rand.Read(key)
		mine.Secret = hex.EncodeToString(key)
		if mine.RunID == "" {
			mine.RunID = "mpirun-" + rand.Text()
		}
		if mine.Addr, err = ownAddress(lookup); err != nil {
			return lookup, err
		}
	}
	b, err := json.Marshal(mine)
	if err != nil {
		return lookup, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), shareTime)
	defer cancel()
	values, err := mpi.Share(ctx, t.Rank, t.Size, rendezvous.OpenMPI(lookup), b)
	if err != nil {
		return lookup, err
	}
	all := make([]sharedByMPI, len(values))
	var hosts []string
	for r, b := range values {
		if err := json.Unmarshal(b, &all[r]); err != nil {
			return lookup, fmt.Errorf("decoding what rank %d shared: %w", r, err)
		}
		if !slices.Contains(hosts, all[r].Host) {
			hosts = append(hosts, all[r].Host)
		}
	}
	given := map[string]string{
		"MASTER_ADDR": all[0].Addr, "MASTER_PORT": strconv.Itoa(t.Port), "TORCHELASTIC_RUN_ID": all[0].RunID,
		"GROUP_RANK": strconv.Itoa(slices.Index(hosts, mine.Host)), "GROUP_WORLD_SIZE": strconv.Itoa(len(hosts)),
	}
	if !secret {
		given[rendezvous.SecretVar] = all[0].Secret
	}
	return func(name string) (string, bool) {
		if v, ok := lookup(name); ok {
			return v, true
		}
		v, ok := given[name]
		return v, ok
	}, nil
}

// ownAddress returns an address of this host for other hosts: of the interface that the user named, or that its
// name resolves to, or the first one.
func ownAddress(lookup func(string) (string, bool)) (string, error) {
	all, err := netif.List()
	if err != nil {
		return "", err
	}
	if c := netif.Chosen("", lookup); c.Spec != "" {
		return netif.Select(all, c.Spec, "")
	}
	var named []string
	if name, err := os.Hostname(); err == nil {
		named, _ = net.LookupHost(name) // many hosts do not resolve their own name
	}
	own := netif.Network(all)
	if len(own) == 0 {
		return "", errors.New("this host has no address that other hosts can reach")
	}
	if i := slices.IndexFunc(own, func(a netip.Addr) bool { return slices.Contains(named, a.String()) }); i > 0 {
		return own[i].String(), nil
	}
	return own[0].String(), nil
}
