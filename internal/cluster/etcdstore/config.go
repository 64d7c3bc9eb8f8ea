//go:build etcd

package etcdstore

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// config reads etcd's variables.
func config(endpoints []string, lookup func(string) (string, bool)) (clientv3.Config, error) {
	get := func(name string) string {
		if v, ok := lookup("ETCDCTL_" + name); ok {
			return v
		}
		return ""
	}
	cfg := clientv3.Config{DialTimeout: 5 * time.Second, DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second}
	cfg.Username, cfg.Password = get("USER"), get("PASSWORD")
	if name, password, ok := strings.Cut(cfg.Username, ":"); ok && cfg.Password == "" {
		cfg.Username, cfg.Password = name, password
	}
	ca, cert, key := get("CACERT"), get("CERT"), get("KEY")
	if (cert == "") != (key == "") {
		return cfg, fmt.Errorf("etcdstore: ETCDCTL_CERT and ETCDCTL_KEY belong together, and one is not set")
	}
	secure := ca != "" || cert != ""
	for _, e := range endpoints {
		secure = secure || strings.HasPrefix(e, "https://")
	}
	for _, e := range endpoints {
		if !strings.Contains(e, "://") {
			e = map[bool]string{true: "https://", false: "http://"}[secure] + e
		}
		cfg.Endpoints = append(cfg.Endpoints, e)
	}
	if !secure {
		return cfg, nil
	}
	cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return cfg, fmt.Errorf("etcdstore: ETCDCTL_CACERT: %w", err)
		}
		cfg.TLS.RootCAs = x509.NewCertPool()
		if !cfg.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return cfg, fmt.Errorf("etcdstore: ETCDCTL_CACERT: %s has no certificate", ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return cfg, fmt.Errorf("etcdstore: ETCDCTL_CERT and ETCDCTL_KEY: %w", err)
		}
		cfg.TLS.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
