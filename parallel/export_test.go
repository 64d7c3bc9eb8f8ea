package parallel

import "trireme/internal/disk"

// WithFiles returns o with create in place of disk.Create.
func (o Options) WithFiles(create func(dir string) (*disk.File, error)) Options {
	o.create = create
	return o
}
