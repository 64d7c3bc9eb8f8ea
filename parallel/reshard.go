package parallel

import (
	"fmt"
	"strconv"
)

// Reshard says how parameters are kept after forward. Values above ReshardNever are the size of the
// groups of ranks that keep one copy together.
type Reshard int

// The values that are not group sizes.
const (
	ReshardAlways Reshard = 0 // true: free them
	ReshardNever  Reshard = 1 // false: each rank keeps them
)

// MarshalText writes true, false or a number.
func (r Reshard) MarshalText() ([]byte, error) {
	switch r {
	case ReshardAlways:
		return []byte("true"), nil
	case ReshardNever:
		return []byte("false"), nil
	}
	return strconv.AppendInt(nil, int64(r), 10), nil
}

// UnmarshalText reads true, false or a number of ranks.
func (r *Reshard) UnmarshalText(text []byte) error {
	switch string(text) {
	case "true":
		*r = ReshardAlways
		return nil
	case "false":
		*r = ReshardNever
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return fmt.Errorf("parallel: reshard_after_forward %q is neither true nor false nor a number of ranks", text)
	}
	*r = Reshard(n)
	return nil
}

// ReshardGroup returns the size of Mesh.Reshard for a shard axis of the given size; 0 for none.
func (c Config) ReshardGroup(shard int) int {
	s, err := ParseStrategy(c.Strategy)
	if err != nil || !s.Params || c.ReshardAfterForward <= ReshardNever || shard%int(c.ReshardAfterForward) != 0 {
		return 0
	}
	return int(c.ReshardAfterForward)
}
