package parallel

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
)

// Gathering is the part of Config that decides when sharded parameters are all-gathered and
// resharded. It changes memory and traffic, never the results. Numbers of elements include the
// padding of a unit.
type Gathering struct {
	// Wrap groups units that are all-gathered together.
	Wrap Wrap `yaml:"wrap"`
	// ParamPersistenceThreshold keeps parameters of at most this many elements whole on each rank;
	// their gradients and optimizer state are still sharded. auto is 10 x hidden size. Default 0.
	ParamPersistenceThreshold Elements `yaml:"param_persistence_threshold"`
	// ModelPersistenceThreshold limits the total number of elements that
	// param_persistence_threshold keeps whole; the first ones are kept. 0: no limit. Default 0.
	ModelPersistenceThreshold int `yaml:"model_persistence_threshold"`
	// ReshardAfterForward says what happens to a unit's parameters after its forward pass: true
	// frees them and all-gathers them again in backward; false keeps them; a number of ranks keeps
	// a copy in each group of that many neighbors, which backward all-gathers within the group
	// (ZeRO++'s hpZ). The number must divide the ranks that shard. Default true.
	ReshardAfterForward Reshard `yaml:"reshard_after_forward"`
	// ForwardPrefetch all-gathers upcoming units during forward, as far ahead as
	// prefetch_bucket_size. Default true.
	ForwardPrefetch bool `yaml:"forward_prefetch"`
	// BackwardPrefetch is when backward all-gathers the next unit. One of backward_pre |
	// backward_post | none. backward_pre: before the current unit's backward pass, so that the two
	// overlap; backward_post: after it, when its parameters are freed; none: when the unit
	// runs. Default backward_pre.
	BackwardPrefetch BackwardPrefetch `yaml:"backward_prefetch"`
	// PrefetchBucketSize is the number of elements that all-gathers may run ahead of the unit that
	// computes; 1 is one unit, 0 none, auto 0.9 x hidden size squared. Default 1.
	PrefetchBucketSize Elements `yaml:"prefetch_bucket_size"`
	// MaxLiveParameters caps the number of gathered elements. The running unit is always gathered;
	// prefetched and cached units stay under the cap. 0: no cap. Default 0.
	MaxLiveParameters int `yaml:"max_live_parameters"`
	// MaxReuseDistance keeps gathered parameters that are used again before this many elements of
	// other units. Default 0.
	MaxReuseDistance int `yaml:"max_reuse_distance"`
}

func defaultGathering() Gathering {
	return Gathering{Wrap: Wrap{Policy: WrapTransformer, MinNumParams: 1e8}, ForwardPrefetch: true, BackwardPrefetch: BackwardPre, PrefetchBucketSize: 1}
}

func (c Gathering) validate() error {
	for _, n := range []struct {
		name  string
		value int
	}{{"model_persistence_threshold", c.ModelPersistenceThreshold}, {"max_live_parameters", c.MaxLiveParameters}, {"max_reuse_distance", c.MaxReuseDistance}} {
		if n.value < 0 {
			return fmt.Errorf("%s is %d: it must be at least 0", n.name, n.value)
		}
	}
	return nil
}

// Persist is what an Engine keeps whole of it, for a model with vectors of so many numbers.
func (c Gathering) Persist(hidden int) Persist {
	return Persist{Most: c.ParamPersistenceThreshold.of(10 * hidden), InAll: c.ModelPersistenceThreshold}
}

// Gather is what an Engine does of it, for a model with vectors of so many numbers.
func (c Gathering) Gather(hidden int) Gather {
	h := Gather{
		Ahead: c.PrefetchBucketSize.of(hidden * hidden * 9 / 10),
		Live:  c.MaxLiveParameters, Reuse: c.MaxReuseDistance, Keep: c.ReshardAfterForward != ReshardAll,
	}
	if c.ForwardPrefetch {
		h.Forward = Before
	}
	switch c.BackwardPrefetch {
	case BackwardPre:
		h.Backward = Before
	case BackwardPost:
		h.Backward = After
	}
	return h
}

// Reshard is what becomes of a unit's parameters between forward and back: kept by groups of so
// many ranks.
type Reshard int

// The values that are no number.
const (
	ReshardAll Reshard = 0 // true: by nobody
	KeepWhole  Reshard = 1 // false: by each rank
)

// MarshalText is true, false or a number.
func (r Reshard) MarshalText() ([]byte, error) {
	switch r {
	case ReshardAll:
		return []byte("true"), nil
	case KeepWhole:
		return []byte("false"), nil
	}
	return strconv.AppendInt(nil, int64(r), 10), nil
}

// UnmarshalText reads true, false or a number of ranks.
func (r *Reshard) UnmarshalText(text []byte) error {
	switch string(text) {
	case "true":
		*r = ReshardAll
		return nil
	case "false":
		*r = KeepWhole
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return fmt.Errorf("parallel: reshard_after_forward %q is neither true nor false nor a number of ranks", text)
	}
	*r = Reshard(n)
	return nil
}

// ReshardGroup is how many ranks Groups.Reshard has where so many shard; 0 for none.
func (c Config) ReshardGroup(shard int) int {
	s, err := ParseStrategy(c.Strategy)
	if err != nil || !s.Params || c.ReshardAfterForward <= KeepWhole || shard%int(c.ReshardAfterForward) != 0 {
		return 0
	}
	return int(c.ReshardAfterForward)
}

// BackwardPrefetch is when what goes back next is gathered.
type BackwardPrefetch string

// The moments, as FSDP names them.
const (
	BackwardPre  BackwardPrefetch = "backward_pre"
	BackwardPost BackwardPrefetch = "backward_post"
	BackwardNone BackwardPrefetch = "none"
)

// Choices are the names.
func (BackwardPrefetch) Choices() []string {
	return []string{string(BackwardPre), string(BackwardPost), string(BackwardNone)}
}

// MarshalText is the name.
func (p BackwardPrefetch) MarshalText() ([]byte, error) { return []byte(p), nil }

// UnmarshalText reads one of Choices.
func (p *BackwardPrefetch) UnmarshalText(text []byte) error {
	if !slices.Contains(p.Choices(), string(text)) {
		return fmt.Errorf("parallel: backward_prefetch %q is not known: backward_pre, backward_post and none are", text)
	}
	*p = BackwardPrefetch(text)
	return nil
}

// Elements is a number of elements, or auto: a function of the hidden size.
type Elements int

// Auto is "auto".
const Auto Elements = -1

func (n Elements) of(auto int) int {
	if n == Auto {
		return auto
	}
	return int(n)
}

// MarshalText is the number, or auto.
func (n Elements) MarshalText() ([]byte, error) {
	if n == Auto {
		return []byte("auto"), nil
	}
	return strconv.AppendInt(nil, int64(n), 10), nil
}

// UnmarshalText reads auto, or a whole number, of which 5e7 is one.
func (n *Elements) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*n = Auto
		return nil
	}
	const longest = 40 // digits, or more than there are
	x, ok := new(big.Float).SetPrec(256).SetString(string(text))
	if whole, at := (*big.Int)(nil), big.Exact; ok && len(text) <= longest && !x.IsInf() && x.MantExp(nil) < 64 {
		if whole, at = x.Int(nil); at == big.Exact && whole.IsInt64() && whole.Sign() >= 0 {
			*n = Elements(whole.Int64())
			return nil
		}
	}
	return fmt.Errorf("parallel: %q is neither auto nor a number of elements", text)
}
