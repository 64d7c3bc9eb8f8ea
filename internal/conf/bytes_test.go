package conf

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"80GB": 80e9, "80 GiB": 80 << 30, "79.6gib": 85469849190, "512MiB": 512 << 20, "1kB": 1000, "1KiB": 1024, "7B": 7, "2 TB": 2e12, "0B": 0,
	} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "80", "GB", "-1GB", "NaNGB", "InfGB", "1e10GB", "80 GB GB", "eightGB", "9223372036854775807B"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q parsed as %d bytes", text, got)
		}
	}
}

// TestBytesText checks round trips.
func TestBytesText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Bytes(rapid.Int64Range(0, 1<<53-1).Draw(t, "bytes"))
		text, err := b.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back Bytes
		if err := back.UnmarshalText(text); err != nil || back != b {
			t.Fatalf("%d marshals to %s, which parses as %d, %v", b, text, back, err)
		}
	})
}

func TestBytesString(t *testing.T) {
	for b, want := range map[Bytes]string{
		0: "0 B (0 B)", 999: "999 B (999 B)", 80e9: "80.0 GB (74.5 GiB)", 1 << 30: "1.07 GB (1.00 GiB)", 123456789: "123 MB (118 MiB)",
		math.MaxInt64: "9223 PB (8192 PiB)", -2e9: "-2.00 GB (-1.86 GiB)",
	} {
		if got := b.String(); got != want {
			t.Errorf("%d formats as %s, want %s", int64(b), got, want)
		}
	}
}

func FuzzParseBytes(f *testing.F) {
	for _, s := range []string{"80GB", "1e3KiB", "0x1p4B", "-0GB", "1_0GB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if b, err := ParseBytes(text); err == nil && b < 0 {
			t.Fatalf("%q is %d", text, b)
		}
	})
}
