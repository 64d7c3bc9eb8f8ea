//go:build !linux

package disk

import (
	"errors"
	"os"
)

func createUnnamed(dir string) (f *os.File, named string, err error) { return createNamed(dir) }
func setDirect(*os.File) bool                                        { return false }
func openDirect(string) *os.File                                     { return nil }
func clearDirect(*os.File) error                                     { return nil }
func allocate(f *os.File, off, n int64) error                        { return f.Truncate(off + n) }
func pages(n int) ([]byte, error)                                    { return make([]byte, n), nil }
func hugePages(n int) (b, mapping []byte, err error)                 { return make([]byte, n), nil, nil }
func unmap([]byte)                                                   {}
func free(string) (int64, error)                                     { return 0, errors.ErrUnsupported }
