package pjrt

// LentValues returns the number of values that C has not freed.
func LentValues() int {
	callbacks.mu.Lock()
	defer callbacks.mu.Unlock()
	return len(callbacks.values)
}

// ConnectedStores returns the number of stores of clients.
func ConnectedStores() int {
	callbacks.mu.Lock()
	defer callbacks.mu.Unlock()
	return len(callbacks.stores)
}

// Live returns the number of open objects of a client.
func (c *Client) Live() int { return c.h.live() }

// InFlight is the limit of executions that a device has started and not finished.
const InFlight = inFlight

// Evict deletes the oldest files of a cache.
func Evict(dir string, limit int64) error { return evict(dir, limit) }
