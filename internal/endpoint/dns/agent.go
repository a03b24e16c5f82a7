package dns

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	miekg "github.com/miekg/dns"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
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
	//go:embed start.sh
	startScript host.Script
	//go:embed hold.sh
	holdScript host.Script
	//go:embed release.sh
	releaseScript host.Script
	//go:embed remove.sh
	removeScript host.Script
)

// errNoPrograms means that the agent's programs are missing, and must not or cannot be installed.
var errNoPrograms = errors.New("the agent's programs are not installed")

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
	all := slices.SortedFunc(maps.Keys(r.targetAddresses()), netip.Addr.Compare)
	return string(host.Assignments(map[string]string{
		"name": r.Address, "zone": r.zone.Name, "type": miekg.TypeToString[r.zone.family],
		"ttl":    strconv.Itoa(int(r.zone.TTL / time.Second)),
		"server": server.Addr().String(), "server_port": strconv.Itoa(int(server.Port())),
		"self": self.String(), "targets": strings.ReplaceAll(addressList(all), ",", ""),
		"port": strconv.Itoa(r.Port), "threshold": strconv.Itoa(r.zone.CheckThreshold),
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
	every := fmt.Sprintf("%dms", interval.Milliseconds())
	return timer.Schedule{
		Description: "DNS records of the Kubernetes control-plane endpoint",
		Lines:       []string{"OnActiveSec=" + every, "OnUnitInactiveSec=" + every, "AccuracySec=50ms"},
	}.Render()
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
	if err := r.installPrograms(ctx, t); err != nil {
		return err
	}
	_, err := r.Machine(t.Address).Apply(ctx, host.Change{
		Dirs: []host.Dir{
			{Path: configDir, Mode: 0o755}, {Path: path.Dir(programDir), Mode: 0o755}, {Path: programDir, Mode: 0o755},
		},
		Files: r.agentFiles(t),
		Links: []host.Link{{
			Path: unitDir + "/timers.target.wants/" + timerUnit, Target: unitDir + "/" + timerUnit,
		}},
		Script: startScript,
		Vars:   map[string]string{"timer": timerUnit},
	})
	return err
}

// installPrograms installs the packages that the agent needs and the machine of a target lacks.
func (r *Registrar) installPrograms(ctx context.Context, t targets.Target) error {
	machine := r.Machine(t.Address)
	facts, err := machine.Observe(ctx, packages.DNS().Extend(host.Query{}))
	if err != nil {
		return err
	}
	missing := packages.DNS().Missing(facts)
	switch list := strings.Join(missing, ", "); {
	case len(missing) == 0:
		return nil
	case !r.zone.InstallPackages:
		return fmt.Errorf("%w: packages %s are missing on %s", errNoPrograms, list, t.Name)
	case !packages.HasManager(facts):
		return fmt.Errorf("%w: packages %s are missing on %s, and none of %s is there to install them", errNoPrograms, list,
			t.Name, strings.Join(packages.Managers(), ", "))
	default:
		problem.Progress(ctx, "install %s on %s", list, t.Name)
		_, err = machine.Run(ctx, packages.DNS().Install(facts))
		return err
	}
}

// unlessOther begins a script that does nothing if the agent serves another endpoint by now: a replica that moves from
// one to the other is registered at the new one first, and a machine has one agent.
func (r *Registrar) unlessOther() host.Script {
	own := host.Assignments(map[string]string{"name": r.Address})
	return "[ ! -e \"$config/config\" ] || grep -qxF -- " + host.Words(strings.TrimSpace(string(own))) +
		" \"$config/config\" || exit 0\n"
}

// hold keeps the agent of a target from adding its record. A machine that cannot be reached is left
// as it is.
func (r *Registrar) hold(ctx context.Context, t targets.Target) error {
	_, err := r.Machine(t.Address).Run(ctx, host.Command{
		Script: host.FlushFunction() + r.unlessOther() + holdScript,
		Vars:   map[string]string{"config": configDir, "state": stateDir},
	})
	if errors.Is(err, host.ErrUnreachable) {
		return nil
	}
	return err
}

// release undoes hold. It reports whether the machine has an agent.
func (r *Registrar) release(ctx context.Context, t targets.Target) (bool, error) {
	output, err := r.Machine(t.Address).Run(ctx, host.Command{
		Script: host.FlushFunction() + r.unlessOther() + releaseScript, Vars: map[string]string{"config": configDir},
	})
	return output == "there\n", err
}

// removeAgent removes the agent from the machine of a target, and the packages that were installed
// for it.
func (r *Registrar) removeAgent(ctx context.Context, t targets.Target) error {
	command := packages.DNS().WithRemoval(r.unlessOther()+removeScript, map[string]string{
		"config": configDir, "state": stateDir, "program": programDir, "units": unitDir,
		"timer": timerUnit, "service": serviceUnit,
	})
	_, err := r.Machine(t.Address).Run(ctx, command)
	return err
}

// agentDrift returns how the agent on the machine of a target differs from the wanted one.
func (r *Registrar) agentDrift(ctx context.Context, t targets.Target) ([]string, error) {
	wanted := r.agentFiles(t)
	query := host.Query{Units: []string{timerUnit}}
	for _, file := range wanted {
		query.Files = append(query.Files, file.Path)
	}
	facts, err := r.Machine(t.Address).Observe(ctx, packages.DNS().Extend(query))
	if err != nil {
		return nil, err
	}
	return driftOf(wanted, facts), nil
}

// driftOf compares the agent's packages, files and timer with what was observed.
func driftOf(wanted []host.File, facts host.Facts) []string {
	var drift []string
	for _, name := range packages.DNS().Missing(facts) {
		drift = append(drift, name+" is not completely installed")
	}
	for _, file := range wanted {
		if _, there := facts.Files[file.Path]; !there && file.Path == registeredPath {
			drift = append(drift, "its DNS agent does not add its record: "+file.Path+" is missing")
			continue
		}
		drift = append(drift, endpoint.FileDrift(facts.Files, file, nil)...)
	}
	if facts.Units[timerUnit].Active != "active" {
		drift = append(drift, timerUnit+" does not run")
	}
	return drift
}
