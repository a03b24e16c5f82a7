package drill

import (
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/pod"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

const (
	// margin is the space in bytes that stays free beside the snapshot and its copy: the log segments of
	// two servers, the member's and the drill's.
	margin = 2 * snapshot.Reserve
	// minimumMemory is what an API server of a small cluster and etcd need, in bytes.
	minimumMemory = 768 << 20
	// firstPort is the first loopback port that is tried.
	firstPort = 36443
	// longest is the time after which the machine ends a drill by itself, and unattended that after
	// which an API server ends that nobody has ended, from when it should be ready at the latest.
	longest    = time.Hour
	unattended = 15 * time.Minute
	// peerURL is what the only member of the drill's cluster is called: nobody connects to it.
	peerURL = "http://127.0.0.1:2"
	quota   = 16 << 30
)

//go:embed start.sh
var startScript host.Script

//go:embed job.sh
var jobScript host.Script

//go:embed status.sh
var statusScript host.Script

// place is a machine on which a drill can run.
type place struct {
	dataDir     string
	tools       string // the directory of etcd's programs
	api         apiServer
	etcdCluster string // etcd's ID of the member's cluster; "": not known
	lastSuccess int64  // of the recorded drill; 0: none
	bucket      bool   // the member uploads its snapshots to a bucket
	environment string // the file with the variables of that upload, such as a proxy; "": none
	newest      string // the name of the newest snapshot on the machine; "": none
}

// root is the directory in which a drill has its data, and the member its snapshots.
func (p place) root() string { return layout.ArchiveRoot(p.dataDir) }

func (p place) vars() map[string]string { return machine.DrillVars(p.dataDir) }

// sourceQuestion asks a machine whether it has the file of a source.
const sourceQuestion host.Script = "[ -z \"$snapshot\" ] || [ -f \"$snapshot\" ] || echo absent\n"

// absent returns an error if a machine answers sourceQuestion that it does not have the file.
func (s Source) absent(answer string) error {
	if s.Snapshot != "" && strings.TrimSpace(answer) == "absent" {
		return fmt.Errorf("%s is not a file on the machine", s.Snapshot)
	}
	return nil
}

// examine reads where the programs are. It changes nothing.
func examine(ctx context.Context, s Spec) (place, error) {
	at, record, err := machine.Identify(ctx, machine.SSH{Host: s.Host}, s.Bundle.ClusterID)
	if err != nil {
		return place{}, err
	}
	if record.Name != s.Member {
		return place{}, fmt.Errorf("the machine has the member %s", record.Name)
	}
	definition := unit.Path(release.APIServer)
	facts, err := s.Host.Observe(ctx, host.Query{
		Contents: []string{definition, layout.DrillPath, snapshot.TimerPath, snapshot.ServicePath},
		Files:    []string{snapshot.StorePath, pod.Path(release.APIServer)}, Dirs: snapshot.Dirs(at.DataDir),
		Script: sourceQuestion, Vars: map[string]string{"snapshot": s.Source.Snapshot},
	})
	if err != nil {
		return place{}, err
	}
	if err := s.Source.absent(facts.Output); err != nil {
		return place{}, err
	}
	file, there := facts.Files[definition]
	if _, is := facts.Files[pod.Path(release.APIServer)]; is {
		return place{}, errors.New("its API server is a static pod: a drill starts the program of a unit")
	}
	if !there {
		return place{}, errors.New("the machine has no API server: a drill needs a member and a replica on one machine")
	}
	p := place{
		dataDir: at.DataDir, tools: at.Tools, etcdCluster: record.EtcdCluster,
		newest: snapshot.Newest(facts.Dirs, time.Now()),
	}
	_, p.bucket = facts.Files[snapshot.StorePath]
	if settings := snapshot.SettingsIn(facts.Files); settings != nil {
		p.environment = settings.EnvironmentFile
	}
	if p.api, err = apiServerIn(file.Content); err != nil {
		return place{}, fmt.Errorf("read %s: %w", definition, err)
	}
	if last, err := snapshot.ReadDrill(facts.Files[layout.DrillPath].Content); err == nil &&
		last.ClusterID == s.Bundle.ClusterID {
		p.lastSuccess = last.LastSuccess
	}
	return p, nil
}

// start brings, verifies and restores the snapshot, and starts its API server.
func (s Spec) start(ctx context.Context, at place, keys credentials) (started, error) {
	files := keys.files()
	files["job.sh"] = string(s.job(at))
	if s.Source.Identity != "" {
		files["identity"] = s.Source.Identity
	}
	var stdin strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&stdin, "%s %s\n", name, base64.StdEncoding.EncodeToString([]byte(files[name])))
	}
	out, err := s.Host.Run(ctx, host.Command{
		Script: machine.DrillFunctions + machine.RestoreFunctions + startScript, Vars: s.startVars(at),
		Stdin: strings.NewReader(stdin.String()),
	})
	if err != nil {
		return started{}, cause(err)
	}
	return readStarted(out)
}

// startVars returns the variables of start.sh. A snapshot in the bucket is fetched with the environment of its upload,
// and is the newest one of the etcd cluster that the machine has, whatever sizes those of former ones had.
func (s Spec) startVars(at place) map[string]string {
	environment := s.Source.EnvironmentFile
	if s.Source.kind() == "" {
		environment = at.environment
	}
	vars := at.vars()
	maps.Copy(vars, map[string]string{
		"kind": s.Source.kind(), "snapshot": s.Source.Snapshot, "commands": s.Source.Fetch, "environment": environment,
		"config": snapshot.StorePath, "data": at.dataDir, "reserve": strconv.Itoa(margin),
		"memory_min": strconv.Itoa(minimumMemory), "first_port": strconv.Itoa(firstPort),
		"limit": strconv.Itoa(int(longest / time.Second)), "tools": at.tools, "etcd_cluster": at.etcdCluster,
		"ahead": strconv.Itoa(int(snapshot.MostAhead / time.Second)),
	})
	return vars
}

// cause returns what the script on the machine has printed, or err.
func cause(err error) error {
	var exit *host.ExitError
	if errors.As(err, &exit) && exit.Stderr != "" {
		return errors.New(exit.Stderr)
	}
	return err
}

// job renders the script of the unit.
func (s Spec) job(at place) host.Script {
	vars := at.vars()
	for name, value := range map[string]string{
		"tools": at.tools, "name": s.Member, "peer": peerURL, "token": membership.NewToken(s.Bundle.ClusterID), "bump": "0",
		"quota": strconv.Itoa(quota), "apiserver": at.api.program,
		"idle": strconv.Itoa(int((servingLimit(0) + unattended) / time.Second)), "read_rate": strconv.Itoa(readRate),
		"work": path.Join(at.root(), "drill"),
	} {
		vars[name] = value
	}
	return host.Assignments(vars) + machine.RestoreFunctions + jobScript +
		"begin " + host.Words(at.api.drillFlags(layout.DrillRunDir)...) + "\n"
}

// clear removes everything of a drill from the machine.
func (s Spec) clear(ctx context.Context, at place) error {
	_, err := s.Host.Run(ctx, host.Command{Script: machine.DrillFunctions + "clear_up\n", Vars: at.vars()})
	if err != nil {
		return fmt.Errorf("remove what the restore drill has on %s, which the next drill does too: %w", s.label(), err)
	}
	return nil
}

// record stores the result on the machine.
func (s Spec) record(ctx context.Context, r snapshot.Drill) error {
	if _, err := s.Host.Apply(ctx, host.Change{Files: []host.File{r.File()}}); err != nil {
		return fmt.Errorf("record the restore drill on %s: %w", s.label(), err)
	}
	return nil
}

// status describes why the drill does not serve, as far as the machine says.
func (s Spec) status(ctx context.Context, at place) (active bool, text string) {
	facts, err := s.Host.Observe(ctx, host.Query{Script: statusScript, Vars: at.vars()})
	if err != nil {
		return true, err.Error() // it may be
	}
	state, text, _ := strings.Cut(facts.Output, "\n")
	return state == "active" || state == "activating", strings.TrimSpace(text)
}
