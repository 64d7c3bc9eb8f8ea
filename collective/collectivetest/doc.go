// Package collectivetest is the suite that every transport of collective passes. Run takes
// a function that makes a world of n ranks inside the test's process; it compares each
// operation's result, bit by bit, with a plain loop over the ranks, so that transports
// which pass give the same bits. Exchange is a meeting point in memory for transports that
// need one. It is for tests only.
package collectivetest
