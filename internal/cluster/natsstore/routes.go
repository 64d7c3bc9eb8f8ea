package natsstore

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// routeTLS returns the configuration of routes, whose both ends show the key pair that is derived from key.
func routeTLS(key []byte) (*tls.Config, error) {
	seed, err := hkdf.Key(sha256.New, key, nil, "trireme 1\x00store routes", ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("natsstore: the key of routes: %w", err)
	}
	private := ed25519.NewKeyFromSeed(seed)
	public := private.Public().(ed25519.PublicKey)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, fmt.Errorf("natsstore: the certificate of routes: %w", err)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		Certificates:       []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}},
		ClientAuth:         tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // no authority: VerifyConnection compares the key itself
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !public.Equal(s.PeerCertificates[0].PublicKey) {
				return errors.New("natsstore: a route of another job")
			}
			return nil
		},
	}, nil
}
