// Package etcdtest starts an etcd, a Server, for tests.
package etcdtest
