package checkpoint

import "golang.org/x/sys/unix"

func mountTmpfs(dir, options string) error { return unix.Mount("tmpfs", dir, "tmpfs", 0, options) }

func unmount(dir string) { _ = unix.Unmount(dir, 0) }
