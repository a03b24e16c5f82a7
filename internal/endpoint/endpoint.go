// Package endpoint has what all kinds of endpoint share: the registration by which replicas enter
// and leave rotation, the status of the resource, and the order of a change. Each kind is a
// package of its own below this one.
package endpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrGone means that nothing of the endpoint exists any more.
var ErrGone = errors.New("control-plane endpoint does not exist")

const (
	// DefaultPort is the port of an endpoint that names none.
	DefaultPort = 6443
	// DefaultDrainTimeout applies to an endpoint that names none.
	DefaultDrainTimeout = 10 * time.Second
)

// Kind is what makes the address of an endpoint fixed.
type Kind string

// The kinds. HAProxy is also the kind of a registration that names none: versions before this
// one wrote it so.
const (
	HAProxy  Kind = "haproxy"
	External Kind = "external"
	DNS      Kind = "dns"
	BGP      Kind = "bgp"
)

// Registration is what a replica needs to enter and leave rotation. It is derived from the
// endpoint's arguments, so it is known at plan time. It contains no secret.
type Registration struct {
	Kind         Kind              `json:"kind,omitempty"` // "" is HAProxy
	Address      string            `json:"address"`
	Address6     string            `json:"address6,omitempty"` // the second one of a dual-stack endpoint
	Port         int               `json:"port"`
	Hosts        map[string]string `json:"hosts"` // name → address: the balancers, or the machines of the replicas
	DrainTimeout time.Duration     `json:"drain_timeout"`
	VerifyCA     bool              `json:"verify_ca"`
	ClusterID    string            `json:"cluster_id,omitempty"` // "" if an earlier version wrote it
	// DetectionTime is how long the endpoint sends requests to a replica that is not ready any
	// more. Zero if the provider takes it out of rotation before.
	DetectionTime time.Duration `json:"detection_time,omitempty"`
	TargetPort    int           `json:"target_port,omitempty"` // of an external endpoint: the API servers' own
	// ProbeFrom is the address of the machine from which the endpoint is probed. "" is this computer.
	ProbeFrom string `json:"probe_from,omitempty"`
	Zone      *Zone  `json:"zone,omitempty"` // of a dns endpoint; nil for other kinds
	// BGP is how an endpoint of that kind announces its address. Nil for the other kinds.
	BGP *Announcement `json:"bgp,omitempty"`
	// Hooks run on this computer. They come from the configuration, and are never written to a
	// machine or read from one.
	Hooks Hooks `json:"-"`
}

// Hooks are commands that change the balancer of an external endpoint, each a program and its
// arguments. Nil means that there is none.
type Hooks struct {
	Register, Drain, Deregister, Status []string
}

// Zone is where the replicas of a dns endpoint have their address records. It contains no secret.
type Zone struct {
	Name        string        `json:"name"`                   // of the zone, without a trailing dot
	Server      string        `json:"server"`                 // IP:port of the server that takes updates
	NameServers []string      `json:"name_servers,omitempty"` // IP:port each; empty: what the zone's NS records say
	TTL         time.Duration `json:"ttl"`
	TSIGKey     string        `json:"tsig_key"` // name of the key; the provider's settings have the secret
	// CheckInterval and CheckThreshold are how the machines check the replicas: this many failed
	// checks in a row take a record out.
	CheckInterval   time.Duration `json:"check_interval"`
	CheckThreshold  int           `json:"check_threshold"`
	InstallPackages bool          `json:"install_packages"` // may install nsupdate and dig on the machines
}

// Key identifies equal registrations.
func (r Registration) Key() string {
	text, _ := json.Marshal(r) // strings, numbers and a map of strings always encode
	return string(text)
}

// Digest identifies equal registrations as a config_digest.
func (r Registration) Digest() string {
	sum := sha256.Sum256([]byte(r.Key()))
	return hex.EncodeToString(sum[:])
}

// Status is what the resource's state records about the endpoint.
type Status struct {
	ConfigDigest string // "" if a host cannot be reached
	Drift        []string
}

// ValidatePort checks a TCP port.
func ValidatePort(port int) error {
	if port < 1 || port > 65535 {
		return fmt.Errorf("port %d is not between 1 and 65535", port)
	}
	return nil
}
