package gcm

import (
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"slices"
)

const (
	blockBytes = 16
	nonceBytes = 12
	tagBytes   = 16
	groupBytes = 32 * blockBytes // of an iteration of seal and open
	maxBytes   = (1<<32 - 2) * blockBytes
)

// wide is an AEAD with four blocks in a register.
type wide struct {
	keys [11][blockBytes]byte // of the rounds of AES
	// table has the powers 32 to 1 of the hash key, as the assembly reads them, and zeros, which are read after the
	// last block.
	table [32 + 3][blockBytes]byte
}

var (
	_ cipher.AEAD = (*wide)(nil)

	errOpen = errors.New("gcm: message authentication failed")
)

func newWide(key [keyBytes]byte) cipher.AEAD {
	w := &wide{}
	expandKey(&w.keys, &key)
	var zero, power [blockBytes]byte
	counter(&w.keys, &zero, &power[0], &zero[0], blockBytes)
	for i := 31; ; i-- {
		w.table[i] = divided(power)
		if i == 0 {
			return w
		}
		var next [blockBytes]byte
		hash(&next, &w.table, &power[0], 1)
		power = next
	}
}

// divided returns p/x with its bytes reversed. The first bit of a block is the coefficient of 1, so the division
// shifts left, and 1/x is x^127 + x^6 + x + 1.
func divided(p [blockBytes]byte) (d [blockBytes]byte) {
	hi, lo := binary.BigEndian.Uint64(p[:]), binary.BigEndian.Uint64(p[8:])
	carry := -(hi >> 63)
	hi, lo = hi<<1|lo>>63, lo<<1
	binary.LittleEndian.PutUint64(d[:], lo^carry&1)
	binary.LittleEndian.PutUint64(d[8:], hi^carry&(0xc2<<56))
	return d
}

func (w *wide) NonceSize() int { return nonceBytes }
func (w *wide) Overhead() int  { return tagBytes }

func (w *wide) Seal(dst, nonce, plaintext, ad []byte) []byte {
	if len(nonce) != nonceBytes {
		panic("gcm: a nonce of another length than 12")
	}
	if uint64(len(plaintext)) > maxBytes {
		panic("gcm: message too long")
	}
	n := len(dst)
	dst = slices.Grow(dst, len(plaintext)+tagBytes)[:n+len(plaintext)+tagBytes]
	out := dst[n:]
	tag := w.crypt(out, plaintext, nonce, ad, false)
	copy(out[len(plaintext):], tag[:])
	return dst
}

func (w *wide) Open(dst, nonce, ciphertext, ad []byte) ([]byte, error) {
	if len(nonce) != nonceBytes {
		panic("gcm: a nonce of another length than 12")
	}
	size := len(ciphertext) - tagBytes
	if size < 0 || uint64(size) > maxBytes {
		return nil, errOpen
	}
	n := len(dst)
	dst = slices.Grow(dst, size)[:n+size]
	out := dst[n:]
	want := [tagBytes]byte(ciphertext[size:])
	tag := w.crypt(out, ciphertext[:size], nonce, ad, true)
	if subtle.ConstantTimeCompare(tag[:], want[:]) != 1 {
		clear(out)
		return nil, errOpen
	}
	return dst, nil
}

// crypt encrypts or decrypts src to dst and returns the tag.
func (w *wide) crypt(dst, src, nonce, ad []byte, opens bool) [tagBytes]byte {
	var y, first [blockBytes]byte
	copy(first[:], nonce)
	first[blockBytes-1] = 1
	w.hash(&y, ad)

	c := first
	size := uint64(len(src))
	rest := src
	if n := len(src) / groupBytes; n > 0 {
		binary.BigEndian.PutUint32(c[nonceBytes:], 2)
		if opens {
			open(&y, &w.table, &w.keys, &c, &dst[0], &src[0], n)
		} else {
			seal(&y, &w.table, &w.keys, &c, &dst[0], &src[0], n)
		}
		rest, dst = src[n*groupBytes:], dst[n*groupBytes:]
	}
	if len(rest) > 0 {
		binary.BigEndian.PutUint32(c[nonceBytes:], uint32(2+(size-uint64(len(rest)))/blockBytes))
		if opens {
			w.hash(&y, rest)
		}
		counter(&w.keys, &c, &dst[0], &rest[0], len(rest))
		if !opens {
			w.hash(&y, dst[:len(rest)])
		}
	}
	var lengths, tag [blockBytes]byte
	binary.BigEndian.PutUint64(lengths[:], uint64(len(ad))*8)
	binary.BigEndian.PutUint64(lengths[8:], size*8)
	w.hash(&y, lengths[:])
	counter(&w.keys, &first, &tag[0], &y[0], tagBytes)
	return tag
}

// hash adds b, padded with zeros to blocks, to the hash y.
func (w *wide) hash(y *[blockBytes]byte, b []byte) {
	if n := len(b) / blockBytes; n > 0 {
		hash(y, &w.table, &b[0], n)
	}
	if rest := b[len(b)/blockBytes*blockBytes:]; len(rest) > 0 {
		var last [blockBytes]byte
		copy(last[:], rest)
		hash(y, &w.table, &last[0], 1)
	}
}
