package pjrt

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
)

// checkFile returns an error if a library of Linux is incomplete. The system's loader maps such a file, and
// its first access beyond the end kills the process.
func checkFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	magic := make([]byte, len(elf.ELFMAG))
	if _, err := f.ReadAt(magic, 0); err != nil || !bytes.Equal(magic, []byte(elf.ELFMAG)) {
		return nil // the loader explains it
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	library, err := elf.NewFile(f)
	if err != nil {
		return errors.New("the file is incomplete or damaged")
	}
	for _, p := range library.Progs {
		if end := p.Off + p.Filesz; p.Type == elf.PT_LOAD && (end < p.Off || end > uint64(info.Size())) {
			return fmt.Errorf("the file is incomplete: %d of at least %d bytes", info.Size(), end)
		}
	}
	return nil
}
