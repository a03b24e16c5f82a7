package host

import "time"

// Config describes how machines are reached. There is one per provider.
type Config struct {
	Credentials
	Agent          string              // path of an ssh-agent socket; "" for none
	KnownHosts     string              // text in known_hosts format
	Bastion        *Bastion            // nil: machines are dialled directly
	Overrides      map[string]Override // by Target.Address
	HostsPending   bool                // Overrides are not known yet, so those of no machine are: none is dialled
	ConnectTimeout time.Duration       // 0 means 10 s; covers TCP, SSH handshake and authentication
	Keepalive      time.Duration       // 0 means 10 s between probes; three unanswered probes close the connection

	// Around, if set, is called before every remote command, and before every request that
	// AroundRequest announces. Run, Apply and Observe are one command each; Install is one command
	// to observe and one per transfer. It lets a test interrupt the work at any of them.
	Around Around
}

// Around is called before a step with the machine's address and a one-line summary. running is
// called when the machine has started the command, and again if the command is repeated. It is
// not called for a request, and not for the lease, whose command runs as long as it is held.
// ended is called when the step has ended. Both are not nil.
type Around func(address, summary string) (running, ended func())

// Credentials are a user and the key that it authenticates with.
type Credentials struct {
	User        string // "" means root
	Port        int    // 0 means 22
	PrivateKey  string // PEM; "" for none
	Passphrase  string // of PrivateKey
	Certificate string // an SSH user certificate for PrivateKey, one authorized_keys line
}

// Bastion is the jump host through which every machine is dialled. Empty credential fields are
// inherited from Config.
type Bastion struct {
	Address string
	HostKey string // pinned, authorized_keys format; "" means known_hosts
	Credentials
}

// Override contains the settings that differ for one machine.
type Override struct {
	Address string // where SSH is dialled, if different from the cluster address
	Port    int
	User    string
	HostKey string // pinned, authorized_keys format ("ssh-ed25519 AAAA…")
	// Pending means that one of the settings is not known yet. The machine is not dialled.
	Pending bool
}

// ConfigError is an invalid setting, detected before any dial. Field is the path of the setting
// in Terraform's terms, such as "private_key", "bastion.host_key" or
// "hosts.10.0.0.11.host_key".
type ConfigError struct {
	Field string
	Err   error
}

func (e *ConfigError) Error() string { return e.Field + ": " + e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }
