// Package view draws a run on a terminal: its loss and other metrics, where the time of a step goes, memory, ranks,
// the last checkpoint and evaluation, and what limits its speed. It shows records of monitor and measures nothing.
//
// View is the sink of a run in the foreground of a terminal.
package view
