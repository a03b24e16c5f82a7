package haproxy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	_ "embed"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
)

var (
	//go:embed ask.sh
	askProgram []byte
	//go:embed reload.sh
	reloadProgram []byte
	//go:embed apply.sh
	applyScript host.Script
	//go:embed stop.sh
	stopScript host.Script
)

// files returns all files of the endpoint on the named host, except 20-backends.cfg, which
// registration owns.
func files(s Spec, name string, b balancer) []host.File {
	text := func(path, content string) host.File {
		return host.File{Path: path, Content: []byte(content), Mode: 0o644}
	}
	program := func(path string, content []byte) host.File {
		return host.File{Path: path, Content: content, Mode: 0o755}
	}
	wanted := []host.File{
		text(endpointPath, renderHAProxy(s)),
		text(keepalivedPath, renderKeepalived(s, name, b.device)),
		program(askPath, askProgram),
		program(reloadPath, reloadProgram),
		text(unitDir+haproxyUnit, renderHAProxyUnit(orDefault(packages.Program(b.facts, "haproxy"), "/usr/sbin/haproxy"))),
		text(unitDir+keepalivedUnit, renderKeepalivedUnit(s,
			orDefault(packages.Program(b.facts, "keepalived"), "/usr/sbin/keepalived"), b.device)),
	}
	if s.CACertificate != "" {
		wanted = append(wanted, text(caPath, s.CACertificate))
	}
	if s.waits() && !s.Inherit { // apply.sh looks first who has the address then
		wanted = append(wanted, text(waitingPath, waitingText))
	}
	return append(wanted, s.watcher(name)...)
}

// waitingText is a number for keepalived: with any but 0, it is in the state FAULT.
const waitingText = "1\n"

// change returns the change that configures the named host. It includes the list of servers,
// unless a replica is registered or deregistered in the meantime.
func change(s Spec, name string, b balancer, servers string) host.Change {
	listed := "" // no file
	if b.hasList() {
		listed = sha256Hex([]byte(b.facts.Files[backendsPath].Content))
	}
	c := host.Change{
		Dirs: []host.Dir{
			{Path: configDir, Mode: 0o755},
			{Path: keepalivedDir, Mode: 0o755},
			{Path: programDir, Mode: 0o755},
		},
		Files: files(s, name, b),
		Links: []host.Link{
			{Path: unitDir + "multi-user.target.wants/" + haproxyUnit, Target: unitDir + haproxyUnit},
			{Path: unitDir + "multi-user.target.wants/" + keepalivedUnit, Target: unitDir + keepalivedUnit},
		},
		Script: withOwner(runningScript + applyScript),
		Vars: with(s.ownerVars(), map[string]string{
			"listed": listed, "servers": servers, "hung": s.hung(b), "step": s.step(),
			"vips": strings.Join(s.vips(), " "),
		}),
	}
	if b.unitActive(keepalivedUnit) { // it may have the address by now: apply.sh looks first
		c.Files = slices.DeleteFunc(c.Files, func(f host.File) bool { return f.Path == waitingPath })
	}
	if s.watches() {
		c.Links = append(c.Links, host.Link{Path: watchLink, Target: unitDir + watchUnit})
	}
	if s.CACertificate == "" {
		c.Remove = append(c.Remove, caPath)
	}
	s.addTimers(&c, b)
	return c
}

// step returns the step for apply.sh.
func (s Spec) step() string {
	if s.inherits() {
		return "inherit"
	}
	return s.HandOver
}

// digest returns one value for all configuration files as observed. Below /run is what probes say; who may take the
// address is no configuration, and that of the services which had it before is not the endpoint's.
func digest(seen map[string]balancer) string {
	others := []string{backendsPath, waitingPath, formerKeepalivedPath, formerHAProxyPath}
	sum := sha256.New()
	for _, name := range names(seen) {
		for _, path := range names(seen[name].facts.Files) {
			if !slices.Contains(others, path) && !strings.HasPrefix(path, "/run/") {
				fmt.Fprintf(sum, "%s %s %s\n", name, path, seen[name].facts.Files[path].SHA256)
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func sha256Hex(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}
