package train

import "trireme/device"

// WithDevice replaces the configured device.
func (d Deps) WithDevice(b device.Device) Deps {
	d.device = b
	return d
}
