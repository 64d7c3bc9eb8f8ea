package monitor

// Host is the state of a machine, with all its programs, over the last sample of 2 s. A value that the operating
// system does not report is nil.
type Host struct {
	CPU             *float64 `json:"cpu,omitempty"`              // processors in use, 0 to their number
	Load            *float64 `json:"load,omitempty"`             // load average of one minute
	MemoryAvailable *float64 `json:"memory_available,omitempty"` // bytes that programs can allocate without swapping
	// DiskFree is the bytes free for the run's directory; DiskRead and DiskWrite are bytes per second of its device.
	DiskFree  *float64 `json:"disk_free,omitempty"`
	DiskRead  *float64 `json:"disk_read_per_second,omitempty"`
	DiskWrite *float64 `json:"disk_write_per_second,omitempty"`
	// NetReceive and NetSend are bytes per second of all interfaces except the loopback.
	NetReceive *float64 `json:"net_receive_per_second,omitempty"`
	NetSend    *float64 `json:"net_send_per_second,omitempty"`
}
