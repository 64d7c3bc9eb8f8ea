// Package rendezvous joins processes to a world: it reads who this process is (Env) and
// lets all of them find each other (Store).
//
// Env is the contract that torchrun and its like set for every worker: RANK, WORLD_SIZE,
// MASTER_ADDR and so on. Without these variables a process is a world of its own.
//
// Store is a small key-value service that rank 0 offers and every rank, rank 0 too, is
// connected to. It carries what ranks must know before they can communicate (addresses,
// names of shared memory), never tensors:
//
//	env, err := rendezvous.Read(os.LookupEnv)
//	store, err := rendezvous.Join(ctx, env, rendezvous.Config{})
//	addrs, err := store.AllGather(ctx, "tcp/addresses", mine)
//
// A rank that dies, before it joins or later, is an error on every other rank that names
// it, not a hang: a lost connection fails all that wait, and a time-out says who is missing.
// Done is closed as soon as any rank is lost, so that others can stop what they are doing.
//
// # Who may join
//
// Rank 0 listens on one interface: on loopback when the whole world is on one machine,
// otherwise on that of MASTER_ADDR. Both sides prove that they know the job's secret (HMAC
// over both sides' nonces) before anything else is read, within 5 seconds and 120 bytes;
// all that follows is encrypted and authenticated (AES-GCM). The secret comes by inherited
// descriptor, by a file that nobody else may read, or by the environment, and is bound to
// the job's id and its restart count, so that a rank left over from another attempt stays
// out. Where a foreign launcher gives no secret, the key is derived from the job's id
// alone, which is public: that is accepted on loopback, and elsewhere only if Config.Insecure
// says so.
//
// # Ports
//
// A launcher may itself hold MASTER_PORT (torchrun's agent does). Rank 0 takes the first
// free port of a short list that begins there; the others try the whole list at once and
// stay with the one that answers the handshake.
package rendezvous
