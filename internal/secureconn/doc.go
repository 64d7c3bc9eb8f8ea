// Package secureconn connects the processes of one job: the ranks' store, the data of collectives and the
// launchers' store use it. Both ends prove that they know the job's key before anything else of the other is
// parsed, and what they send afterwards is sealed:
//
//	l, err := secureconn.Listen(ctx, "10.0.0.1:0", cfg, nil)
//	in, err := l.Accept()                                    // in.Hello() returns hello
//
//	out, err := secureconn.Dial(ctx, addr, cfg, hello)
//	err = out.WriteFrame(ad, body)                           // in.ReadFrame(ad, buf) checks ad too
//
// # Handshake
//
// Messages have fixed sizes, 910 bytes in total, and 5 seconds. The listener sends first, so a dialer sends
// nothing to other programs.
//
//	listener: "trireme3", nonce [32]
//	dialer:   nonce [32], mode u8, length u16, hello [256], HMAC [32]
//	listener: status u8, length u16, text [512], HMAC [32]
//
// Each HMAC-SHA256 covers all bytes before it and its side. Config.Key is derived from the job's secret, the
// job, its generation and a purpose, so a process of another job, of an older generation, or with a
// connection of another purpose fails. Fresh nonces of both sides make replays fail.
//
// # Strangers
//
// A listener holds up to 256 connections that are not authenticated, 128 of one address. One more closes the
// oldest of the address that has most, so silent connections cannot keep others out. A connection that fails is
// reset and leaves no state in the kernel.
//
// # Frames
//
// A frame is its length (u32, little endian), a tag in mode Sign, and the body. Each direction has its own
// key (HKDF of the key and both nonces) and counts its frames; the count is the nonce of AES-128-GCM. Both
// ends name the associated data of a frame, which is not sent. A frame that was changed, replayed, dropped or
// reordered, or that the reader expects with other associated data, is an error, and so is every later read.
package secureconn
