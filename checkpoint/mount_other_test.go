//go:build !linux

package checkpoint

import "errors"

func mountTmpfs(dir, options string) error { return errors.New("only Linux has tmpfs") }

func unmount(dir string) {}
