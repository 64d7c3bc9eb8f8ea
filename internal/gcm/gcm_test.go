package gcm

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"

	"trireme/internal/cpuid"
)

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// both returns New's AEAD and the standard library's.
func both(t testing.TB, key []byte) (got, want cipher.AEAD) {
	t.Helper()
	got, err := New(key)
	if err != nil {
		t.Fatal(err)
	}
	b, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	if want, err = cipher.NewGCM(b); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%T", got) == fmt.Sprintf("%T", want) {
		if cpuid.VAES {
			t.Fatal("the processor has the instructions, which are not used")
		}
		t.Skip("SKIPPED: this processor has no VAES, so New returns the standard library's GCM")
	}
	return got, want
}

// check compares one message with the standard library, in separate memory and in place.
func check(t *testing.T, got, want cipher.AEAD, nonce, plain, ad []byte) {
	t.Helper()
	sealed := want.Seal(nil, nonce, plain, ad)
	if s := got.Seal(nil, nonce, plain, ad); !bytes.Equal(s, sealed) {
		t.Fatalf("%d bytes with %d bytes beside: sealed wrongly", len(plain), len(ad))
	}
	b := append(make([]byte, 3, 3+len(sealed)), plain...)
	if s := got.Seal(b[:3], nonce, b[3:], ad); !bytes.Equal(s[3:], sealed) || !bytes.Equal(s[:3], make([]byte, 3)) {
		t.Fatalf("%d bytes with %d bytes beside: sealed wrongly in place", len(plain), len(ad))
	}
	if p, err := got.Open(nil, nonce, sealed, ad); err != nil || !bytes.Equal(p, plain) {
		t.Fatalf("%d bytes with %d bytes beside: opened wrongly (%v)", len(plain), len(ad), err)
	}
	in := bytes.Clone(sealed)
	if p, err := got.Open(in[:0], nonce, in, ad); err != nil || !bytes.Equal(p, plain) {
		t.Fatalf("%d bytes with %d bytes beside: opened wrongly in place (%v)", len(plain), len(ad), err)
	}
	if !bytes.Equal(in[len(plain):], sealed[len(plain):]) {
		t.Fatalf("%d bytes: wrote beyond the plaintext", len(plain))
	}
}

// Every length up to a few groups, as plaintext and as associated data, and some large ones.
func TestSameAsStandardLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	got, want := both(t, random(r, 16))
	for n := range 1100 {
		nonce := random(r, 12)
		check(t, got, want, nonce, random(r, n), random(r, r.IntN(70)))
		check(t, got, want, nonce, random(r, r.IntN(70)), random(r, n))
	}
	for range 200 {
		got, want := both(t, random(r, 16))
		check(t, got, want, random(r, 12), random(r, r.IntN(300_000)), random(r, r.IntN(300_000)))
	}
}

// Bytes outside the message are neither written nor do they change the result.
func TestBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	got, want := both(t, random(r, 16))
	for n := range 700 {
		around := random(r, 64+n+16+64)
		b := bytes.Clone(around)
		plain, nonce := random(r, n), random(r, 12)
		got.Seal(b[64:64], nonce, plain, nil)
		if !bytes.Equal(b[64:][:n+16], want.Seal(nil, nonce, plain, nil)) || !bytes.Equal(b[:64], around[:64]) || !bytes.Equal(b[64+n+16:], around[64+n+16:]) {
			t.Fatalf("%d bytes: wrote outside", n)
		}
	}
}

func TestRefused(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	got, _ := both(t, random(r, 16))
	for _, n := range []int{0, 1, 15, 16, 17, 64, 511, 512, 513, 4096, 5000} {
		nonce, ad := random(r, 12), random(r, 40)
		sealed := got.Seal(nil, nonce, random(r, n), ad)
		for range 50 {
			bad := bytes.Clone(sealed)
			bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
			dst := random(r, n)
			if p, err := got.Open(dst[:0], nonce, bad, ad); err == nil || p != nil {
				t.Fatalf("%d bytes: a changed message was opened", n)
			}
			if !bytes.Equal(dst, make([]byte, n)) {
				t.Fatalf("%d bytes: plaintext of a refused message stays in memory", n)
			}
		}
		wrong := bytes.Clone(ad)
		wrong[r.IntN(len(wrong))] ^= 1
		if _, err := got.Open(nil, nonce, sealed, wrong); err == nil {
			t.Errorf("%d bytes: opened with other associated data", n)
		}
		if _, err := got.Open(nil, random(r, 12), sealed, ad); err == nil {
			t.Errorf("%d bytes: opened with another nonce", n)
		}
	}
	for n := range 16 {
		if _, err := got.Open(nil, make([]byte, 12), make([]byte, n), nil); err == nil {
			t.Errorf("%d bytes are a message", n)
		}
	}
}

// Test cases 1 to 4 of McGrew and Viega, "The Galois/Counter Mode of Operation", which NIST's validation includes.
func TestVectors(t *testing.T) {
	const (
		key  = "feffe9928665731c6d6a8f9467308308"
		iv   = "cafebabefacedbaddecaf888"
		text = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
		seal = "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091"
	)
	for i, v := range []struct{ key, iv, text, ad, sealed string }{
		{"00000000000000000000000000000000", "000000000000000000000000", "", "", "58e2fccefa7e3061367f1d57a4e7455a"},
		{"00000000000000000000000000000000", "000000000000000000000000", "00000000000000000000000000000000", "",
			"0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf"},
		{key, iv, text + "1aafd255", "", seal + "473f5985" + "4d5c2af327cd64a62cf35abd2ba6fab4"},
		{key, iv, text, "feedfacedeadbeeffeedfacedeadbeefabaddad2", seal + "5bc94fbc3221a5db94fae95ae7121a47"},
	} {
		b := func(s string) []byte {
			d, err := hex.DecodeString(s)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		a, err := New(b(v.key))
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Seal(nil, b(v.iv), b(v.text), b(v.ad)); !bytes.Equal(got, b(v.sealed)) {
			t.Errorf("test case %d: %x, want %s", i+1, got, v.sealed)
		}
		if got, err := a.Open(nil, b(v.iv), b(v.sealed), b(v.ad)); err != nil || !bytes.Equal(got, b(v.text)) {
			t.Errorf("test case %d: %x (%v), want %s", i+1, got, err, v.text)
		}
	}
}

func TestKeyLength(t *testing.T) {
	if _, err := New(make([]byte, 15)); err == nil {
		t.Error("a key of 15 bytes is accepted")
	}
}

func TestNoAllocation(t *testing.T) {
	a, err := New(make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	nonce, body, buf := make([]byte, 12), make([]byte, 5000), make([]byte, 0, 6000)
	if n := testing.AllocsPerRun(10, func() { buf = a.Seal(buf[:0], nonce, body, nonce) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGCM(b *testing.B) {
	key, nonce := make([]byte, 16), make([]byte, 12)
	wide, err := New(key)
	if err != nil {
		b.Fatal(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		b.Fatal(err)
	}
	std, err := cipher.NewGCM(block)
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range []int{64, 1 << 10, 16 << 10, 256 << 10} {
		body, out := make([]byte, size), make([]byte, 0, size+16)
		for name, a := range map[string]cipher.AEAD{"wide": wide, "std": std} {
			b.Run(fmt.Sprintf("sign/%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					a.Seal(out[:0], nonce, nil, body)
				}
			})
			b.Run(fmt.Sprintf("seal/%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					a.Seal(out[:0], nonce, body, nil)
				}
			})
			sealed := a.Seal(nil, nonce, body, nil)
			b.Run(fmt.Sprintf("open/%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					if _, err := a.Open(out[:0], nonce, sealed, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
