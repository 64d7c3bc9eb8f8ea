package parallel

import (
	"fmt"
	"strconv"
)

// Reshard is what becomes of a unit's parameters between forward and back: kept by groups of so
// many ranks.
type Reshard int

// The values that are no number.
const (
	ReshardAlways Reshard = 0 // true: by nobody
	ReshardNever  Reshard = 1 // false: by each rank
)

// MarshalText is true, false or a number.
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

// ReshardGroup is how many ranks Mesh.Reshard has where so many shard; 0 for none.
func (c Config) ReshardGroup(shard int) int {
	s, err := ParseStrategy(c.Strategy)
	if err != nil || !s.Params || c.ReshardAfterForward <= ReshardNever || shard%int(c.ReshardAfterForward) != 0 {
		return 0
	}
	return int(c.ReshardAfterForward)
}
