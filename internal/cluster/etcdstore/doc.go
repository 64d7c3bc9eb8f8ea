// Package etcdstore is a launchers' store on an etcd that the site runs, in programs built with the tag etcd.
// A revision is etcd's revision, and a lease is one of etcd's, so its ttl counts in seconds.
//
// Connect reads etcd's usual variables: ETCDCTL_CACERT, ETCDCTL_CERT and ETCDCTL_KEY for TLS, ETCDCTL_USER
// ("name:password" or a name) and ETCDCTL_PASSWORD. The keys of a job start with its prefix.
package etcdstore
