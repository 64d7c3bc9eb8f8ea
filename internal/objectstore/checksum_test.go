package objectstore

import (
	"fmt"
	"testing"
)

// TestChecksumAlgorithms compares with the check values of the usual catalog of CRCs, and FIPS 180.
func TestChecksumAlgorithms(t *testing.T) {
	for algorithm, want := range map[string]string{
		"CRC-32C": "e3069283", "CRC-64": "ae8b14860a799888", "CRC-32": "cbf43926",
		"SHA-256": "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
	} {
		h := Checksum{algorithm: algorithm}.New()
		h.Write([]byte("123456789"))
		if got := fmt.Sprintf("%x", h.Sum(nil)); got != want {
			t.Errorf("%s: %s, want %s", algorithm, got, want)
		}
	}
}
