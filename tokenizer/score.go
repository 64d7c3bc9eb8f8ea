package tokenizer

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
)

// parseScore parses a JSON number as serde_json does, with which tokenizers reads its files: the digits that fit 64 bits are
// rounded to a float64, which is multiplied or divided by a power of ten and rounded again. The result may be a neighbor of the
// nearest float64. That decides between segmentations whose scores are equal except for rounding.
func parseScore(b []byte) (float64, error) {
	var f float64
	if b[0] == 'n' { // json leaves f as it is
		return 0, errors.New("a score is null")
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return 0, err
	}
	const largest = math.MaxUint64
	var digits uint64
	exponent, fraction, full := 0, false, false
	i := 0
	for ; i < len(b) && b[i] != 'e' && b[i] != 'E'; i++ {
		switch c := b[i]; {
		case c == '-':
		case c == '.':
			fraction = true
		case full || digits > largest/10 || digits == largest/10 && uint64(c-'0') > largest%10:
			full = true // further digits only count
			if !fraction {
				exponent++
			}
		default:
			digits = 10*digits + uint64(c-'0')
			if fraction {
				exponent--
			}
		}
	}
	if i < len(b) {
		e, err := strconv.Atoi(string(b[i+1:]))
		if err != nil {
			return f, nil // 0 or as large as no score
		}
		exponent += e
	}
	f = scaled(float64(digits), exponent)
	if b[0] == '-' {
		f = -f
	}
	return f, nil
}

// scaled is serde_json's f * 10^exponent.
func scaled(f float64, exponent int) float64 {
	for ; exponent < -308 && f != 0; exponent += 308 {
		f /= 1e308
	}
	power, err := strconv.ParseFloat("1e"+strconv.Itoa(max(exponent, -exponent)), 64) // math.Pow10 is not rounded to nearest
	if err != nil {
		return f // 0
	}
	if exponent < 0 {
		return f / power
	}
	return f * power
}

// spellScore returns a number that parseScore reads as f: the shortest that is nearest to f, or else one of up to 20 digits that
// is nearest to f or to a neighbor. For some scores of sentencepiece's files, which parseScore did not read, none is found; then it
// is the shortest.
func spellScore(f float64) ([]byte, error) {
	shortest, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	if got, err := parseScore(shortest); err != nil || got == f {
		return shortest, err
	}
	for _, near := range []float64{f, math.Nextafter(f, 0), math.Nextafter(f, 2*f)} {
		for digits := 17; digits <= 20; digits++ {
			b := strconv.AppendFloat(nil, near, 'e', digits-1, 64)
			if got, err := parseScore(b); err == nil && got == f {
				return b, nil
			}
		}
	}
	return shortest, nil
}
