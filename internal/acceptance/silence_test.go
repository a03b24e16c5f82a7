package acceptance

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"
)

// silence is how long a control plane changes in TestSilence.
const silence = time.Hour

// leaderMoves is how often members may restart: each time, the leader moves, and four times within 15 minutes are an
// alert, whoever is the cause.
const leaderMoves = 5 * time.Minute

// silenceConfig has the versions of Kubernetes and of etcd, a flag of the API servers and schedulers, and the stage of
// all rotations.
const silenceConfig = `
module "control_plane" {
  kubernetes = {
    version    = %q
    metrics    = { address = "0.0.0.0", textfile_directory = var.textfile_directory }
    extra_args = { apiserver = { v = "%[3]d" }, scheduler = { v = "%[3]d" } }
  }
  etcd = {
    version    = %[2]q
    snapshots = { schedule = "hourly" }
    metrics   = { address = "0.0.0.0", textfile_directory = var.textfile_directory }
  }
  pki = {
    deletion_protection = false
    rotation            = { kubernetes = %[4]d, etcd = %[4]d, front_proxy = %[4]d, service_account = %[4]d }
  }
}
`

// silent is a control plane that changes while no alert may fire.
type silent struct {
	kubernetes, etcd string
	verbosity, stage int
}

// TestSilence changes a control plane for an hour: upgrades by a minor, rotations of all authorities, replacements
// and changes of flags. The alerts wait as long as they do by default, and none fires: those that wait for an hour or
// longer (mixed versions, learners, rotations) hardly can. An alert about slowness may fire while processes wait for
// this computer.
func TestSilence(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w, bare := monitored(t, names, 1)
	s := silent{kubernetes: release(t, "kubernetes-1.35"), etcd: release(t, "etcd-3.5")}
	change := func(args ...string) {
		t.Helper()
		override(t, w, fmt.Sprintf(silenceConfig, s.kubernetes, s.etcd, s.verbosity, s.stage))
		apply(t, w, args...)
	}
	change()
	p := scraping(t, w)
	p.expectTargets(t, 6*len(names))
	begun := time.Now()
	load := watchPressure(t)
	changes := []func(){
		func() { s.etcd = release(t, "etcd"); change() },
		func() { s.kubernetes = release(t, "kubernetes"); change() },
		func() { change(`-replace=module.control_plane.kube_control_plane_replica.this["cp2"]`) },
		func() { change(`-replace=module.control_plane.kube_etcd_member.this["cp3"]`) },
	}
	done := 0
	for ; time.Since(begun) < silence; done++ {
		next := time.Now().Add(leaderMoves)
		if done < len(changes) {
			changes[done]()
		} else {
			s.verbosity = done % 3
			change()
			s.stage++
			change()
			p.configure(t, prometheusFiles(t, w)) // with the authorities of the stage
		}
		time.Sleep(time.Until(next))
	}
	p.expectTargets(t, 6*len(names))
	if done <= len(changes) {
		t.Errorf("only %d changes in %s", done, silence)
	}
	t.Logf("%d changes, the last rotation at stage %d", done, s.stage)
	for name, at := range p.fired(t, begun) {
		busy := load.before(at)
		t.Logf("%s fired at %s, on a computer with the pressure %v", name, at.Format(time.TimeOnly), busy)
		if !slices.Contains(loadAlerts, name) || !busy.high() {
			t.Errorf("%s has fired", name)
		}
	}
	t.Logf("the highest pressure: %v", load.highest())
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

// fired returns the alerts that have fired since a time, and when each first did.
func (p prometheus) fired(t *testing.T, begun time.Time) map[string]time.Time {
	t.Helper()
	query := fmt.Sprintf("query_range?query=%s&start=%d&end=%d&step=15",
		url.QueryEscape(`count by (alertname) (ALERTS{alertstate="firing"})`), begun.Unix(), time.Now().Unix())
	var data struct {
		Result []struct {
			Metric map[string]string
			Values [][2]any
		}
	}
	if !p.get(t, query, &data) {
		t.Fatal("Prometheus does not answer")
	}
	all := map[string]time.Time{}
	for _, series := range data.Result {
		seconds, ok := series.Values[0][0].(float64)
		if !ok {
			t.Fatalf("Prometheus answers %v", series.Values[0])
		}
		all[series.Metric["alertname"]] = time.Unix(int64(seconds), 0)
	}
	return all
}
