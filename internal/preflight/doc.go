// Package preflight checks the hosts of a job against each other before its ranks start.
//
// Every host calls Run at the same time. Hosts exchange messages through what they have already joined (the
// launchers' store, or the ranks' store), and connect to each other directly, as ranks will:
//
//	report, err := preflight.Run(ctx, preflight.Config{Exchange: s, Index: 1, N: 4, Name: "n1", Address: "10.0.0.2", Key: key})
//	report.Print(os.Stdout)
//
// The steps, with an exchange after each, so that all hosts have all results and return the same report:
//
//  1. Facts of each host: addresses, version, digest of the configuration, processors, memory.
//  2. Each host resolves the names of the others, connects to each, and measures latency, clock offset, and
//     whether large packets pass.
//  3. Bandwidth, in rounds of disjoint pairs, so that pairs do not disturb each other.
//  4. An all-reduce with a known sum over the ranks' transport.
//
// A host that is lost on the way is an error that names it. Everything else is a finding of the report.
package preflight
