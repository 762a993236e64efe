// Package fleet shares learned configs between hosts, through etcd or a shared directory.
package fleet
