//go:build !linux

package host

import "os"

func kernel() string                  { return "" }
func limits() []Limit                 { return nil }
func shared() Shared                  { return Shared{Memfd: "only Linux has unnamed memory files"} }
func synchronized() (yes, known bool) { return false, false }

func directBuffer(_ *os.File, n int) (b []byte, free func(), direct bool) {
	return make([]byte, n), func() {}, false
}
