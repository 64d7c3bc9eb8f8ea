// Package rendezvous joins the processes of a job: Env describes this process, and Store connects it to
// the others.
//
// Env is the contract of torchrun and similar launchers: RANK, WORLD_SIZE, MASTER_ADDR and so on. A
// process without these variables is a world of one rank.
//
// Store is a small key-value service, like PyTorch's TCPStore. Rank 0 runs it and every rank connects to
// it. It carries what ranks need before they can communicate (addresses, shared-memory names), never
// tensors:
//
//	env, err := rendezvous.Read(os.LookupEnv)
//	store, err := rendezvous.Join(ctx, env, rendezvous.Config{}) // or Connect, work, and Rendezvous
//	addrs, err := store.AllGather(ctx, "tcp/addresses", mine)
//
// A rank that dies, before or after it joins, is an error on every other rank that names it, not a hang: a
// lost connection fails all waiting calls, and a time-out names the missing ranks. Done is closed as soon
// as any rank is lost. A rank that waits for more than a second says for which ranks (Config.Note).
//
// # Heartbeats
//
// After Connect, each rank and rank 0 exchange ten heartbeats per Config.Heartbeat; any other byte counts
// too. Rank 0 watches all ranks, and they watch rank 0. Silence is counted in the observer's ticks, so an
// observer that was itself stopped or starved does not declare others lost. A rank on the same machine
// (same kernel, pid namespace and network) is inspected after half of Heartbeat: it is lost if its process is
// stopped; a running one may be late up to Config.Timeout, however loaded the machine is. A rank on
// another machine is lost after 0.8 of Heartbeat without a sign of life, so that all know within Heartbeat.
//
// # Hangs
//
// With heartbeats ranks send the states of their recorders (Config.Recorder, package flight). Rank 0 diagnoses
// them: ranks that wait for each other, or for one that reaches no collective and makes no progress for
// Config.Timeout, end the job on every rank with one text, which names that rank, the collective and what the
// rank does. After ten seconds rank 0 notes for whom all wait. Waits in AllGather and Await are recorded as
// collectives without a limit.
//
// # Who may join
//
// Rank 0 listens on one interface: loopback if the world is on one machine, otherwise that of MASTER_ADDR.
// Connections are those of package secureconn: both sides prove that they know the job's secret before
// anything else is read, and all later messages are encrypted. The secret is an inherited descriptor, a file
// readable only by its owner, or an environment variable. Keys are bound to the job id and restart count, so
// ranks of another attempt are refused. If the launcher gives no secret, ranks on one machine use a random key
// that the user's first process stores in a private directory. Ranks on several machines are refused, unless
// Env.Insecure is set: then they join without proof, and nothing is encrypted.
//
// # Ports
//
// A launcher may hold MASTER_PORT itself, as torchrun's agent does. Rank 0 takes the first free port of a
// short list that starts there. The others try the whole list and use the one that passes the handshake.
package rendezvous
