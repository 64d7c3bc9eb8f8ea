// Package store is the state that the launchers of one job share: a small map from keys to values with
// compare-and-swap, watches and leases. Launchers register in it, agree on generations and report their end.
// It is not for the ranks' data: package rendezvous has the ranks' store, and collectives move tensors.
//
// A Store is one client. NewMemory serves one host and tests; package natsstore embeds a server in the
// launchers of the job, and etcdstore uses an etcd of the site. Each passes storetest.Run.
//
//	rev, err := s.Create(ctx, "job/generation", []byte("0"))   // ErrExists if another launcher was first
//	rev, err = s.Update(ctx, "job/generation", []byte("1"), rev) // ErrConflict if it changed meanwhile
//	lease, err := s.Lease(ctx, "job/hosts/n0", []byte("8"), 5*time.Second)
//	defer lease.Release(ctx)
//	w, err := s.Watch(ctx, "job/hosts/")
//	for e := range w.Events() { ... }
//	err = w.Err()
//
// Keys are segments joined by slashes, such as "job/hosts/node-1.example.org". A segment has bytes from '!' to
// '~' without the slash. A prefix is empty or ends with a slash.
//
// The state is as durable as its servers. Treat it as reconstructible, never as the only record of anything.
package store
