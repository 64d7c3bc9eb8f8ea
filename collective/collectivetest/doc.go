// Package collectivetest is the conformance suite of collective's transports. Run takes a function that
// makes a world of n ranks within the test process, and compares the result of each operation, bit by
// bit, with a plain loop over ranks. Bootstrap is an in-memory collective.Bootstrap. For tests only.
package collectivetest
