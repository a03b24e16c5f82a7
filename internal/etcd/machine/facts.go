package machine

import (
	"net"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/textfile"
)

const factsName = "etcd-facts"

// noFacts is the writer of facts of a machine that has none.
var noFacts = textfile.Writer{
	Resource: "kube_etcd_member", Name: factsName, Script: layout.ConfigDir + "/facts.sh", Period: 30 * time.Second,
}

// FactsTimer is the timer that writes the facts of a member.
const FactsTimer = factsName + ".timer"

// FactsPaths are the files that show where facts are written.
var FactsPaths = []string{noFacts.Script, noFacts.Job().TimerPath()}

// facts returns the writer of the member's facts.
func (s Spec) facts() textfile.Writer {
	w := noFacts
	w.Directory = s.TextfileDirectory
	if w.Directory == "" {
		return w
	}
	client, peer := net.JoinHostPort(s.Host.Address(), "2379"), net.JoinHostPort(s.Host.Address(), "2380")
	w.Programs = []textfile.Program{{Name: layout.Product, Unit: layout.Unit}}
	if s.Runtime == StaticPod {
		w.Programs[0].Unit = ""
	}
	w.Certificates = []textfile.Certificate{
		{File: layout.CAPath},
		{File: layout.PKIDir + "/server.crt", At: client},
		{File: layout.PKIDir + "/peer.crt", At: peer},
		{File: layout.PKIDir + "/healthcheck-client.crt"},
	}
	w.Record, w.Learner = layout.RecordPath, metricsURL
	w.Snapshots, w.Drill = s.SnapshotMember().Facts(), layout.DrillPath
	return w
}
