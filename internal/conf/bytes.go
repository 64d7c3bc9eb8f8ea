package conf

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"trireme/fault"
)

// Bytes is an amount of memory or storage. GB is 1e9 bytes, GiB 2^30.
type Bytes int64

// units by lower-case name, longer names first, since "b" is a suffix of all.
var units = []struct {
	name  string
	bytes float64
}{
	{"tib", 1 << 40}, {"gib", 1 << 30}, {"mib", 1 << 20}, {"kib", 1 << 10},
	{"tb", 1e12}, {"gb", 1e9}, {"mb", 1e6}, {"kb", 1e3}, {"b", 1},
}

// ParseBytes parses a number with a unit: 80GB, 79.6 GiB, 512MiB.
func ParseBytes(text string) (b Bytes, err error) {
	err = b.parse(text)
	return b, err
}

func (b *Bytes) parse(text string) error {
	t := strings.ToLower(strings.TrimSpace(text))
	for _, u := range units {
		number, ok := strings.CutSuffix(t, u.name)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(v >= 0) || v*u.bytes >= math.MaxInt64 {
			break
		}
		*b = Bytes(math.Round(v * u.bytes))
		return nil
	}
	if _, err := strconv.ParseFloat(t, 64); err == nil {
		return fault.Try(fmt.Errorf("%q has no unit", text), "%sGB (1e9 bytes), or %sGiB (2^30)", t, t)
	}
	return fault.Try(fmt.Errorf("%q is not a number of bytes", text), "80GB (80e9 bytes), or 80GiB (80 x 2^30)")
}

// UnmarshalText is ParseBytes; an empty text is 0.
func (b *Bytes) UnmarshalText(text []byte) error {
	*b = 0
	if len(text) == 0 {
		return nil
	}
	return b.parse(string(text))
}

// MarshalText writes a lossless text for UnmarshalText.
func (b Bytes) MarshalText() ([]byte, error) {
	if b == 0 {
		return nil, nil
	}
	for _, u := range units {
		if v := float64(b) / u.bytes; v == math.Trunc(v) && v < 1<<53 {
			name := strings.ToUpper(u.name)
			return fmt.Appendf(nil, "%.0f%s", v, strings.Replace(name, "IB", "iB", 1)), nil
		}
	}
	return fmt.Appendf(nil, "%dB", int64(b)), nil
}

// Decimal formats b in powers of 1000: 83.1 GB.
func (b Bytes) Decimal() string { return b.in(1000, "B", "kB", "MB", "GB", "TB", "PB") }

// Binary formats b in powers of 1024: 77.4 GiB.
func (b Bytes) Binary() string { return b.in(1024, "B", "KiB", "MiB", "GiB", "TiB", "PiB") }

// String formats b in both: 83.1 GB (77.4 GiB).
func (b Bytes) String() string { return b.Decimal() + " (" + b.Binary() + ")" }

func (b Bytes) in(base float64, names ...string) string {
	v, i := float64(b), 0
	for ; math.Abs(v) >= base && i < len(names)-1; i++ {
		v /= base
	}
	switch {
	case i == 0 || math.Abs(v) >= 99.95:
		return fmt.Sprintf("%.0f %s", v, names[i])
	case math.Abs(v) >= 9.995:
		return fmt.Sprintf("%.1f %s", v, names[i])
	}
	return fmt.Sprintf("%.2f %s", v, names[i])
}
