//go:build !linux

package mpi

import "time"

func sleepThread(d time.Duration) { time.Sleep(d) }
