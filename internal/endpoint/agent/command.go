package agent

import (
	"context"
	_ "embed"
	"maps"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// Parts of the programs on the machines: how they see the API server of their machine, and how the machine has an
// address for packets that routers send. The files say which variables they need.
var (
	//go:embed readiness.sh
	Readiness host.Script
	//go:embed address.sh
	Address host.Script
)

// command returns a script of the kind for the endpoint of r. title is a comment: the first line of a script names
// it in messages. replica is the one that a machine must have, and "" if that does not matter.
func (k Kind[R]) command(title host.Script, script host.Command, r endpoint.Registration, replica string) host.Command {
	vars := map[string]string{"cluster": r.ClusterID, "vip": r.Address, "replica": replica}
	if k.Scripts.Vars != nil {
		maps.Copy(vars, k.Scripts.Vars(r))
	}
	maps.Copy(vars, script.Vars)
	return host.Command{
		Script: title + host.FlushFunction() + k.Scripts.Functions + endpoint.OwnerFunctions() + script.Script,
		Vars:   vars,
	}
}

func (k Kind[R]) admit(r endpoint.Registration, replica string) host.Command {
	return k.command("# put the replica into rotation\n", host.Command{Script: k.Scripts.Admit}, r, replica)
}

func (k Kind[R]) drain(r endpoint.Registration, replica string, how targets.Leaving) host.Command {
	removed := "yes"
	if how == targets.ToReturn {
		removed = "no"
	}
	return k.command("# take the replica out of rotation\n", host.Command{
		Script: k.Scripts.Drain, Vars: map[string]string{"removed": removed},
	}, r, replica)
}

func (k Kind[R]) clean(r endpoint.Registration, replica string) host.Command {
	return k.command("# remove the endpoint\n", k.Scripts.Clean, r, replica)
}

// Run runs a script of the kind for a replica on its machine, unless that has another endpoint or another replica by
// now. title is a comment: the first line of the command, which messages contain.
func (r *Registrar[R]) Run(ctx context.Context, t targets.Target, title, script host.Script) error {
	command := r.Kind.command(title, host.Command{Script: script}, r.Registration, t.Name)
	_, err := endpoint.RunOwned(ctx, r.Machine(t.Address), command)
	return err
}

// claim returns the command that records whose replica the machine has, also if it had another one of the endpoint.
func (k Kind[R]) claim(r endpoint.Registration, replica string) host.Command {
	return k.command("# claim the machine\n", host.Command{
		Script: endpoint.ClaimScript(), Vars: map[string]string{"record": r.Record(replica)},
	}, r, "")
}

// UnitDir is where units of the kinds are. Those that start at boot have a link in wantsDir.
const (
	UnitDir  = "/etc/systemd/system/"
	wantsDir = UnitDir + "multi-user.target.wants/"
)

// change returns what Register applies to a machine.
func (k Kind[R]) change(r endpoint.Registration, files []host.File) host.Change {
	command := k.command("# apply the endpoint\n", host.Command{Script: k.Scripts.Apply}, r, "")
	c := host.Change{
		Dirs: []host.Dir{
			{Path: "/opt/kube", Mode: 0o755}, {Path: k.Program, Mode: 0o755}, {Path: k.ConfigDir, Mode: 0o755},
		},
		Files: files, Script: command.Script, Vars: command.Vars,
	}
	for _, unit := range k.Units {
		c.Links = append(c.Links, host.Link{Path: wantsDir + unit, Target: UnitDir + unit})
	}
	return c
}
