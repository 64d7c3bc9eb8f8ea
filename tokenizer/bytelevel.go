package tokenizer

import "unicode/utf8"

// byteRunes is GPT-2's alphabet: a printable rune per byte. Printable Latin-1 bytes map to
// themselves, others to U+0100 and up.
var byteRunes = func() (t [256]rune) {
	next := rune(256)
	for b := range t {
		r := rune(b)
		if r > ' ' && r < 0x7f || r > 0xa0 && r != 0xad {
			t[b] = r
			continue
		}
		t[b] = next
		next++
	}
	return t
}()

// runeBytes is its inverse, -1 for other runes.
var runeBytes = func() (t [324]int16) {
	for i := range t {
		t[i] = -1
	}
	for b, r := range byteRunes {
		t[r] = int16(b)
	}
	return t
}()

// toRunes writes bytes in GPT-2's alphabet.
func toRunes(bytes string) string {
	out := make([]byte, 0, len(bytes)+len(bytes)/2)
	for i := range len(bytes) {
		out = utf8.AppendRune(out, byteRunes[bytes[i]])
	}
	return string(out)
}

// fromRunes decodes GPT-2's alphabet; ok is false if a rune is outside it, and Hugging Face's
// decoder then keeps the token.
func fromRunes(token string) (bytes string, ok bool) {
	out := make([]byte, 0, len(token))
	for _, r := range token {
		if int(r) >= len(runeBytes) || runeBytes[r] < 0 {
			return token, false
		}
		out = append(out, byte(runeBytes[r]))
	}
	return string(out), true
}
