// Package simulated provides a fleet of machines in this process, for measurements at a scale
// that exceeds real machines on one computer. It is a simulation: it is no evidence for the
// behaviour of a control plane. It measures the provider: its connections, its commands, its
// time and its memory.
//
// Each machine is an SSH server of its own, with files and systemd units in memory. It
// understands only the commands that package host sends, including the scripts of a create and
// of a refresh. An unknown command fails with an error. In tunnels, etcd and the three
// components answer with the certificates that the provider wrote to the machine.
package simulated

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/crypto/ssh"
)

// Size of each control plane of a fleet.
const perCluster = 3

// Fleet is a set of control planes of three machines each.
type Fleet struct {
	clusters []*cluster
	machines map[string]*machine // by cluster address
	key      ssh.Signer          // every machine's host key
	private  ed25519.PrivateKey  // private key of it
	own      tls.Certificate     // the self-signed certificate of controller-manager and scheduler

	connections, commands, tunnels atomic.Int64
	kindsMu                        sync.Mutex
	kinds                          map[string]int
	stop                           context.CancelFunc
	serving                        sync.WaitGroup
}

// cluster contains the machines of one control plane.
type cluster struct {
	name     string
	vip      string
	machines []*machine

	mu    sync.Mutex
	added map[string]*pb.Member // by peer URL: members that joined after the bootstrap
}

// Counts are the requests that the machines of a fleet have served since the last count.
type Counts struct {
	Connections int
	Commands    int
	Tunnels     int            // TCP connections inside SSH
	Kinds       map[string]int // commands by kind
}

// Add adds what was served later.
func (c *Counts) Add(later Counts) {
	c.Connections, c.Commands, c.Tunnels = c.Connections+later.Connections, c.Commands+later.Commands,
		c.Tunnels+later.Tunnels
	if c.Kinds == nil {
		c.Kinds = map[string]int{}
	}
	for kind, n := range later.Kinds {
		c.Kinds[kind] += n
	}
}

// Start starts the machines of that many control planes.
func Start(ctx context.Context, clusters int) (*Fleet, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("simulate machines: %w", err)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, fmt.Errorf("simulate machines: %w", err)
	}
	own, err := selfSigned()
	if err != nil {
		return nil, fmt.Errorf("simulate machines: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	f := &Fleet{machines: map[string]*machine{}, key: key, private: private, own: own, kinds: map[string]int{}, stop: stop}
	for i := range clusters {
		c := &cluster{name: fmt.Sprintf("cluster-%03d", i), vip: fmt.Sprintf("10.%d.%d.100", 100+i/250, i%250)}
		for j := range perCluster {
			m := newMachine(f, c, fmt.Sprintf("cp%d", j+1), fmt.Sprintf("10.%d.%d.%d", 100+i/250, i%250, 11+j))
			c.machines = append(c.machines, m)
			f.machines[m.address] = m
			if err := f.listen(ctx, m); err != nil {
				return nil, errors.Join(err, f.Close())
			}
		}
		f.clusters = append(f.clusters, c)
	}
	return f, nil
}

// Close stops the machines.
func (f *Fleet) Close() error {
	f.stop()
	var errs []error
	for _, m := range f.machines {
		if m.listener != nil {
			errs = append(errs, m.listener.Close())
		}
		m.servers.close()
	}
	f.serving.Wait()
	return errors.Join(errs...)
}

// listen serves SSH of one machine on a port of the loopback interface.
func (f *Fleet) listen(ctx context.Context, m *machine) (err error) {
	var config net.ListenConfig
	if m.listener, err = config.Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return fmt.Errorf("simulate machine %s: %w", m.address, err)
	}
	f.serving.Go(func() {
		for {
			raw, err := m.listener.Accept()
			if err != nil {
				return
			}
			f.serving.Go(func() { m.serve(ctx, raw) })
		}
	})
	return nil
}

// Count returns what was served since the last call.
func (f *Fleet) Count() Counts {
	f.kindsMu.Lock()
	defer f.kindsMu.Unlock()
	c := Counts{
		Connections: int(f.connections.Swap(0)), Commands: int(f.commands.Swap(0)), Tunnels: int(f.tunnels.Swap(0)),
		Kinds: f.kinds,
	}
	f.kinds = map[string]int{}
	return c
}

func (f *Fleet) note(kind string) {
	f.commands.Add(1)
	f.kindsMu.Lock()
	defer f.kindsMu.Unlock()
	f.kinds[kind]++
}

// Clusters returns the fleet as a Terraform variable: endpoint address and machines of each
// control plane, by name.
func (f *Fleet) Clusters() map[string]any {
	all := map[string]any{}
	for _, c := range f.clusters {
		machines := map[string]string{}
		for _, m := range c.machines {
			machines[m.name] = m.address
		}
		all[c.name] = map[string]any{"endpoint": c.vip, "machines": machines}
	}
	return all
}

// Hosts returns the addresses of the machines, in the form of the provider's ssh.hosts.
func (f *Fleet) Hosts() map[string]any {
	key := f.hostKey()
	all := map[string]any{}
	for address, m := range f.machines {
		at := m.listener.Addr().(*net.TCPAddr)
		all[address] = map[string]any{"address": at.IP.String(), "port": at.Port, "host_key": key}
	}
	return all
}

// hostKey returns the host key of all machines, in the form of authorized_keys and ssh.hosts.
func (f *Fleet) hostKey() string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(f.key.PublicKey())))
}

// PrivateKey returns a key to log in with, in OpenSSH's format. Every key is accepted, so it is
// the machines' own.
func (f *Fleet) PrivateKey() (string, error) {
	block, err := ssh.MarshalPrivateKey(f.private, "")
	if err != nil {
		return "", fmt.Errorf("simulate machines: %w", err)
	}
	return string(pem.EncodeToMemory(block)), nil
}
