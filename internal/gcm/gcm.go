package gcm

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/fips140"

	"trireme/internal/cpuid"
)

// New returns AES-128-GCM with nonces of 12 bytes and tags of 16. key has 16 bytes. The AEAD is safe for
// concurrent use. Its input and output must overlap exactly or not at all.
func New(key []byte) (cipher.AEAD, error) {
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	if cpuid.VAES && len(key) == keyBytes && !fips140.Enabled() {
		return newWide([keyBytes]byte(key)), nil
	}
	return cipher.NewGCM(b)
}

const keyBytes = 16
