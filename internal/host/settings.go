package host

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	defaultUser           = "root"
	defaultPort           = 22
	defaultConnectTimeout = 10 * time.Second
	defaultKeepalive      = 10 * time.Second
)

// settings is a validated and parsed Config.
type settings struct {
	login
	agent     string
	known     knownHosts
	pinned    map[string]ssh.PublicKey // by cluster address
	overrides map[string]Override
	pending   bool // HostsPending
	bastion   *endpoint

	connectTimeout time.Duration
	keepalive      time.Duration
	around         Around // not nil
}

// login is a user with its keys and the SSH port.
type login struct {
	user    string
	port    int
	signers []ssh.Signer // without those of the agent
}

// endpoint is one SSH server, with the login and the trusted host keys.
type endpoint struct {
	login
	name    string // the cluster address: its name in messages and in known_hosts
	address string // the address that is dialled
	pinned  ssh.PublicKey
}

func (e endpoint) dialAddress() string {
	return net.JoinHostPort(e.address, strconv.Itoa(e.port))
}

// resolve validates config. It dials nothing, not even the agent.
func resolve(config Config) (settings, error) {
	s := settings{
		agent:          config.Agent,
		overrides:      config.Overrides,
		pending:        config.HostsPending,
		connectTimeout: cmp.Or(config.ConnectTimeout, defaultConnectTimeout),
		keepalive:      cmp.Or(config.Keepalive, defaultKeepalive),
		around:         config.Around,
	}
	if s.around == nil {
		s.around = func(string, string) (running, ended func()) { return func() {}, func() {} }
	}
	if err := checkDurations(config); err != nil {
		return settings{}, err
	}
	if err := checkAgent(config.Agent); err != nil {
		return settings{}, err
	}
	var err error
	if s.login, err = resolveLogin("", config.Credentials); err != nil {
		return settings{}, err
	}
	if s.known, err = parseKnownHosts(config.KnownHosts); err != nil {
		return settings{}, &ConfigError{"known_hosts", err}
	}
	if s.pinned, err = resolveOverrides(config.Overrides); err != nil {
		return settings{}, err
	}
	if s.bastion, err = resolveBastion(config); err != nil {
		return settings{}, err
	}
	return s, nil
}

// target returns the SSH server of the machine with this cluster address.
func (s settings) target(address string) endpoint {
	o := s.overrides[address]
	e := endpoint{login: s.login, name: address, address: cmp.Or(o.Address, address), pinned: s.pinned[address]}
	e.user = cmp.Or(o.User, e.user)
	e.port = cmp.Or(o.Port, e.port)
	return e
}

func checkDurations(config Config) error {
	if config.ConnectTimeout < 0 {
		return &ConfigError{"connect_timeout", errors.New("must not be negative")}
	}
	if config.Keepalive < 0 {
		return &ConfigError{"keepalive", errors.New("must not be negative")}
	}
	return nil
}

func checkAgent(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return &ConfigError{"agent", fmt.Errorf("find the ssh-agent: %w", err)}
	}
	if info.Mode()&os.ModeSocket == 0 {
		return &ConfigError{"agent", fmt.Errorf("%s is not a socket", path)}
	}
	return nil
}

func resolveLogin(prefix string, c Credentials) (login, error) {
	if err := checkPort(prefix+"port", c.Port); err != nil {
		return login{}, err
	}
	signers, err := parseCredentials(prefix, c)
	if err != nil {
		return login{}, err
	}
	return login{user: cmp.Or(c.User, defaultUser), port: cmp.Or(c.Port, defaultPort), signers: signers}, nil
}

func checkPort(field string, port int) error {
	if port < 0 || port > 65535 {
		return &ConfigError{field, fmt.Errorf("%d is not a TCP port", port)}
	}
	return nil
}

func resolveOverrides(overrides map[string]Override) (map[string]ssh.PublicKey, error) {
	pinned := make(map[string]ssh.PublicKey)
	for _, address := range slices.Sorted(maps.Keys(overrides)) {
		o := overrides[address]
		field := "hosts." + address
		if err := checkPort(field+".port", o.Port); err != nil {
			return nil, err
		}
		key, err := parsePinned(o.HostKey)
		if err != nil {
			return nil, &ConfigError{field + ".host_key", err}
		}
		if key != nil {
			pinned[address] = key
		}
	}
	return pinned, nil
}

// resolveBastion completes the bastion's settings from config. A certificate belongs to its
// key, so it is inherited only together with the key.
func resolveBastion(config Config) (*endpoint, error) {
	b := config.Bastion
	if b == nil {
		return nil, nil
	}
	if b.Address == "" {
		return nil, &ConfigError{"bastion.address", errors.New("must not be empty")}
	}
	c := b.Credentials
	if c.PrivateKey == "" {
		c.PrivateKey = config.PrivateKey
		c.Certificate = cmp.Or(c.Certificate, config.Certificate)
	}
	c.User = cmp.Or(c.User, config.User)
	c.Port = cmp.Or(c.Port, config.Port)
	c.Passphrase = cmp.Or(c.Passphrase, config.Passphrase)
	l, err := resolveLogin("bastion.", c)
	if err != nil {
		return nil, err
	}
	key, err := parsePinned(b.HostKey)
	if err != nil {
		return nil, &ConfigError{"bastion.host_key", err}
	}
	return &endpoint{login: l, name: b.Address, address: b.Address, pinned: key}, nil
}
