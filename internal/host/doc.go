// Package host examines the host of a rank: Read returns facts, and Facts.Findings the problems for runs.
//
// Facts come from the operating system and take about a second, most of it for the disk. Findings are a
// judgment of facts alone, so that each problem can be tested without a host that has it, and so that
// hosts of a job can send their facts to one another (package preflight).
//
// Variable is the table of environment variables that users of other programs set, with their effect here.
package host
