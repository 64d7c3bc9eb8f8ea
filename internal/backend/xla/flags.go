package xla

import "trireme/internal/pjrt"

// Flags returns the compiler's flags for a platform. A compiler that lacks one works without it.
func Flags(platform string) []pjrt.Flag {
	if platform != "cuda" {
		return nil
	}
	return nil
}
