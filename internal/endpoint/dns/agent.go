package dns

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"time"

	miekg "github.com/miekg/dns"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// Paths on the machine of a replica.
const (
	configDir      = "/etc/kube-endpoint-dns"
	configPath     = configDir + "/config"
	keyPath        = configDir + "/key"
	registeredPath = configDir + "/registered" // without it, the agent does not add the machine's record
	stateDir       = "/run/kube-endpoint-dns"
	programDir     = "/opt/kube/endpoint-dns"
	programPath    = programDir + "/agent"
	unitDir        = "/etc/systemd/system"
	serviceUnit    = "kube-endpoint-dns.service"
	timerUnit      = "kube-endpoint-dns.timer"
)

var (
	//go:embed agent.sh
	agentProgram []byte
	//go:embed install.sh
	installScript host.Script
	//go:embed hold.sh
	holdScript host.Script
	//go:embed release.sh
	releaseScript host.Script
	//go:embed remove.sh
	removeScript host.Script
)

// errNoPrograms means that the machine has no nsupdate or dig, and must not install them.
var errNoPrograms = errors.New("the agent's programs are not installed")

// exitMissing is install.sh's exit status for that.
const exitMissing = 3

// agentFiles returns the files of the agent on the machine of a target.
func (r *Registrar) agentFiles(t targets.Target) []host.File {
	files := []host.File{
		{Path: configPath, Content: []byte(r.agentConfig(t)), Mode: 0o644},
		{Path: registeredPath, Mode: 0o644},
		{Path: programPath, Content: agentProgram, Mode: 0o755},
		{Path: unitDir + "/" + serviceUnit, Content: []byte(renderService()), Mode: 0o644},
		{Path: unitDir + "/" + timerUnit, Content: []byte(renderTimer(r.zone.CheckInterval)), Mode: 0o644},
	}
	if r.zone.key != nil {
		files = append(files, host.File{Path: keyPath, Content: keyFile(r.zone.TSIGKey, *r.zone.key), Mode: 0o600})
	}
	return files
}

// agentConfig returns the variables that agent.sh reads.
func (r *Registrar) agentConfig(t targets.Target) string {
	server, _ := netip.ParseAddrPort(r.zone.Server) // valid, see Validate
	self, _ := netip.ParseAddr(t.Address)
	return string(host.Assignments(map[string]string{
		"name": r.Address, "zone": r.zone.Name, "type": miekg.TypeToString[r.zone.family],
		"ttl":    strconv.Itoa(int(r.zone.TTL / time.Second)),
		"server": server.Addr().String(), "server_port": strconv.Itoa(int(server.Port())),
		"self": self.String(), "port": strconv.Itoa(r.Port), "threshold": strconv.Itoa(r.zone.CheckThreshold),
	}))
}

// renderService renders the unit of one round. systemd's own messages about each round are left out
// of the journal.
func renderService() string {
	return systemd.Managed + `
[Unit]
Description=DNS records of the Kubernetes control-plane endpoint
Documentation=man:nsupdate(1)

[Service]
Type=oneshot
ExecStart=` + programPath + `
TimeoutStartSec=30s
LogLevelMax=notice
RuntimeDirectory=kube-endpoint-dns
RuntimeDirectoryPreserve=yes
CapabilityBoundingSet=
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
` + systemd.Sandbox
}

// renderTimer renders the unit that starts a round, interval after the one before has ended.
func renderTimer(interval time.Duration) string {
	return fmt.Sprintf(`%s
[Unit]
Description=DNS records of the Kubernetes control-plane endpoint

[Timer]
OnActiveSec=%[2]dms
OnUnitInactiveSec=%[2]dms
AccuracySec=50ms

[Install]
WantedBy=timers.target
`, systemd.Managed, interval.Milliseconds())
}

// startAgent lets the agent of a target add its record, and installs it before.
func (r *Registrar) startAgent(ctx context.Context, t targets.Target) error {
	if !r.recorded {
		return r.installAgent(ctx, t)
	}
	_, err := r.release(ctx, t)
	return err
}

// installAgent installs the agent and allows it to add the machine's record.
func (r *Registrar) installAgent(ctx context.Context, t targets.Target) error {
	if err := r.zone.signs(); err != nil {
		return err
	}
	install := "no"
	if r.zone.InstallPackages {
		install = "yes"
	}
	_, err := r.Machine(t.Address).Apply(ctx, host.Change{
		Dirs: []host.Dir{
			{Path: configDir, Mode: 0o755}, {Path: path.Dir(programDir), Mode: 0o755}, {Path: programDir, Mode: 0o755},
		},
		Files: r.agentFiles(t),
		Links: []host.Link{{
			Path: unitDir + "/timers.target.wants/" + timerUnit, Target: unitDir + "/" + timerUnit,
		}},
		Script: installScript,
		Vars:   map[string]string{"install": install, "timer": timerUnit},
	})
	var exit *host.ExitError
	if errors.As(err, &exit) && exit.Code == exitMissing {
		return fmt.Errorf("%w: %w", errNoPrograms, err)
	}
	return err
}

// hold keeps the agent of a target from adding its record. A machine that cannot be reached is left
// as it is.
func (r *Registrar) hold(ctx context.Context, t targets.Target) error {
	_, err := r.Machine(t.Address).Run(ctx, host.Command{
		Script: host.FlushFunction() + holdScript, Vars: map[string]string{"config": configDir, "state": stateDir},
	})
	if errors.Is(err, host.ErrUnreachable) {
		return nil
	}
	return err
}

// release undoes hold. It reports whether the machine has an agent.
func (r *Registrar) release(ctx context.Context, t targets.Target) (bool, error) {
	output, err := r.Machine(t.Address).Run(ctx, host.Command{
		Script: host.FlushFunction() + releaseScript, Vars: map[string]string{"config": configDir},
	})
	return output == "there\n", err
}

// removeAgent removes the agent from the machine of a target.
func (r *Registrar) removeAgent(ctx context.Context, t targets.Target) error {
	_, err := r.Machine(t.Address).Run(ctx, host.Command{
		Script: host.FlushFunction() + removeScript,
		Vars: map[string]string{
			"config": configDir, "state": stateDir, "program": programDir, "units": unitDir,
			"timer": timerUnit, "service": serviceUnit,
		},
	})
	return err
}

// agentDrift returns how the agent on the machine of a target differs from the wanted one.
func (r *Registrar) agentDrift(ctx context.Context, t targets.Target) ([]string, error) {
	wanted := map[string]host.File{}
	for _, file := range r.agentFiles(t) {
		wanted[file.Path] = file
	}
	facts, err := r.Machine(t.Address).Observe(ctx, host.Query{
		Files: slices.Sorted(maps.Keys(wanted)), Units: []string{timerUnit},
	})
	if err != nil {
		return nil, err
	}
	var drift []string
	for _, file := range slices.Sorted(maps.Keys(wanted)) {
		observed, ok := facts.Files[file]
		sum := sha256.Sum256(wanted[file].Content)
		switch {
		case !ok && file == registeredPath:
			drift = append(drift, "its DNS agent does not add its record: "+file+" is missing")
		case !ok:
			drift = append(drift, file+" is missing")
		case observed.SHA256 != hex.EncodeToString(sum[:]) || observed.Mode != wanted[file].Mode:
			drift = append(drift, file+" differs")
		}
	}
	if facts.Units[timerUnit].Active != "active" {
		drift = append(drift, timerUnit+" does not run")
	}
	return drift, nil
}
