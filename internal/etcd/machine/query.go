package machine

import (
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/node"
)

// Query returns the query for everything that this package reads from a machine, in one
// round trip.
func Query(s Spec) host.Query {
	q := host.Query{
		Contents: []string{
			layout.UnitPath, layout.EnvPath, layout.RecordPath, layout.CAPath,
			layout.RollbackUnitPath, layout.PodPath, ManifestPath, KeptManifest,
		},
		Notes:         append(stagedKeys(s.Directory()), layout.StartNote),
		Dirs:          []string{ArtifactDir(s.Version), layout.DropInDir},
		SharedDirs:    append(archiveRoots(s.Directory()), s.Directory(), snapshot.UpgradesDir(s.Directory())),
		SharedEntries: append([]string{MemberDir}, restoringNames...),
		Units:         []string{layout.Unit, snapshot.Timer, snapshot.Service},
		Ports:         s.ports(),
		Disks:         []string{s.Directory(), snapshot.UpgradesDir(s.Directory())},
	}
	q.Contents = append(q.Contents, snapshot.Paths...)
	q.Files = append(q.Files, returnsPath, s.Directory())
	q.Dirs = append(q.Dirs, s.SnapshotMember().StoreDirs()...)
	q.Script, q.Vars = s.SnapshotMember().Questions()
	q.Script += s.podQuestions() + s.raftLogQuestion()
	s.askForVolume(&q)
	s.liveness().AddTo(&q)
	s.facts().AddTo(&q)
	if s.InstallKubelet != nil {
		node.AddTo(&q)
	} else {
		q.Files = append(q.Files, node.RecordPath)
	}
	for _, leaf := range leaves(s) {
		q.Contents = append(q.Contents, CertificatePath(leaf))
		q.Files = append(q.Files, keyPath(leaf))
	}
	return q
}

// ports are those that every member listens on.
var ports = []int{2379, 2380, 2381}
