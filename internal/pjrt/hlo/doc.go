// Package hlo reads the schedule of a program that XLA has compiled for a GPU: which of its collectives run
// at the same time as matrix products. It reads the HloModuleProtoWithConfig of pjrt.Executable.Text.
package hlo
