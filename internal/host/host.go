// Package host accesses a machine over SSH. It provides one pooled connection per machine,
// commands, atomic changes, observation in one round trip, artifacts, and a tunnel for TCP
// connections. It does not depend on etcd, Kubernetes or Terraform.
package host

import "io"

// Target identifies one machine. Address is the machine's cluster address (an IP or a DNS
// name). The pool shares connections by this address, and Config.Overrides and known_hosts are
// looked up by it.
type Target struct {
	Address string
}

// Host is one machine. Values are cheap and safe for concurrent use: the underlying connection
// belongs to the Pool and is opened on first use.
type Host struct {
	pool   *Pool
	target Target
}

// Address returns the machine's cluster address, for messages and endpoints.
func (h *Host) Address() string { return h.target.Address }

// Command is one remote command. Script runs under `sh -eu` as root (through `sudo -n` if the
// SSH user is not root). Script is constant text; variable values are passed in Vars, see
// Assignments. Neither may contain a secret, because both may appear in logs and process lists.
// Secrets are passed through Stdin.
type Command struct {
	What   string // what it does, in one line for messages; "": the first line of Script that is no comment
	Script Script
	Vars   map[string]string // set for Script: name → value
	Stdin  io.Reader         // nil: empty
}
