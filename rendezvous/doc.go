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
//	store, err := rendezvous.Join(ctx, env, rendezvous.Config{}) // or Connect, work, and Meet
//	addrs, err := store.AllGather(ctx, "tcp/addresses", mine)
//
// A rank that dies, before it joins or later, is an error on every other rank that names
// it, not a hang: a lost connection fails all that wait, and a time-out says who is missing.
// Done is closed as soon as any rank is lost, so that others can stop what they are doing. A rank
// that waits says for whom after a second (Config.Note).
//
// # Heartbeats
//
// From Connect on every rank and rank 0 send each other ten signs of life in Config.Heartbeat,
// whatever else they do; any other byte counts too. Rank 0 watches all ranks, and they watch rank 0.
// Silence is counted in the observer's own ticks, so that one that was stopped or starved itself
// blames nobody. A rank on the same machine (the same kernel and namespace of process numbers) is
// looked at once it has been silent for half of Heartbeat: it is lost if its process is stopped. If
// that runs, it is only late, however loaded the machine is, up to Config.Timeout. Of a rank on
// another machine nothing is known but its silence, which counts after Heartbeat.
//
// # Who may join
//
// Rank 0 listens on one interface: on loopback when the whole world is on one machine,
// otherwise on that of MASTER_ADDR. Both sides prove that they know the job's secret (HMAC
// over both sides' nonces) before anything else is read, within 5 seconds and 120 bytes;
// all that follows is encrypted and authenticated (AES-GCM). The secret comes by inherited
// descriptor, by a file that nobody else may read, or by the environment, and is bound to
// the job's id and its restart count, so that a rank left over from another attempt stays
// out. Where a foreign launcher gives no secret, ranks on one machine take a random key that
// the first of a user's processes leaves in a directory that only this user may enter; ranks on
// several machines are refused.
//
// # Ports
//
// A launcher may itself hold MASTER_PORT (torchrun's agent does). Rank 0 takes the first
// free port of a short list that begins there; the others try the whole list at once and
// stay with the one that answers the handshake.
package rendezvous
