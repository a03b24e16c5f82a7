// Package host is a machine reached over SSH: one pooled connection per
// machine, commands, atomic changes, one-round-trip observation, artifacts and
// a tunnel for TCP dials. It knows nothing of etcd, Kubernetes or Terraform.
package host

import "io"

// Target is the place of one machine. Address is the machine's cluster address
// (an IP or a DNS name): the key by which the pool shares connections and by
// which Config.Overrides and known_hosts are looked up.
type Target struct {
	Address string
}

// Host is one machine. Values are cheap and safe for concurrent use: the
// connection behind them belongs to the Pool and is made on first use.
type Host struct {
	pool   *Pool
	target Target
}

// Address returns the machine's cluster address, for messages and endpoints.
func (h *Host) Address() string { return h.target.Address }

// Command is one remote command: Script runs under `sh -eu` as root (through
// `sudo -n` where the SSH user is not root). Script is fixed text; what varies
// comes in Vars, see Assignments. Neither may hold a secret: they may appear in
// logs and process lists. Secrets go through Stdin.
type Command struct {
	Script Script
	Vars   map[string]string // set for Script: name → value
	Stdin  io.Reader         // nil: empty
}
