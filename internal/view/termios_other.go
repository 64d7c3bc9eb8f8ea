//go:build !linux

package view

import "golang.org/x/sys/unix"

// Requests that read the settings of a terminal, and that set them at once.
const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)
