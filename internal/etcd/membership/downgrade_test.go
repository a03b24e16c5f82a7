package membership

import (
	"strings"
	"testing"
)

// downgrading returns a survey of members in a cluster in which a downgrade is enabled.
func downgrading(to, cluster string, versions ...string) Survey {
	s := running(cluster, versions...)
	s.Downgrade = to
	return s
}

func TestMayChangeVersion(t *testing.T) {
	for _, c := range []struct {
		name      string
		survey    Survey
		target    string
		downgrade bool
		want      string // part of the refusal; "": allowed
	}{
		{"patch", running("3.6", "3.6.16", "3.6.16"), "3.6.15", false, ""},
		{"minor up", running("3.5", "3.5.35", "3.5.35"), "3.6.16", false, ""},
		{"minor down", running("3.6", "3.6.16", "3.6.16", "3.6.16"), "3.5.35", true, ""},
		{"minor down, the oldest possible", running("3.6", "3.6.16"), "3.5.32", true, ""},
		{"minor down, too old", running("3.6", "3.6.16"), "3.5.31", true, "downgrade to 3.5.32 or later"},
		{"3.7 down", running("3.7", "3.7.3", "3.7.3"), "3.6.16", true, ""},
		{"3.7 down, too old", running("3.7", "3.7.3", "3.7.3"), "3.6.11", true, "downgrade to 3.6.12 or later"},
		{"two minors down", running("3.7", "3.7.3"), "3.5.35", true, "the cluster version is 3.7: etcd 3.5.35 cannot"},
		{"below what is managed", running("3.5", "3.5.35"), "3.4.30", true, "not a version to which this provider"},
		{"one does not answer", running("3.6", "3.6.16", ""), "3.5.35", true, ""},
		{
			"an upgrade has not ended", running("3.6", "3.6.16", "3.7.3", "3.6.16"), "3.5.35",
			true, "member b (10.0.0.b) runs 3.7.3",
		},
		{"enabled, nothing restarted", downgrading("3.5", "3.6", "3.6.16", "3.6.16"), "3.5.35", true, ""},
		{"enabled, and lowered", downgrading("3.5", "3.5", "3.6.16", "3.6.16"), "3.5.35", true, ""},
		{"enabled, and half-way", downgrading("3.5", "3.5", "3.6.16", "3.5.35"), "3.5.34", true, ""},
		{"enabled, and to an old patch", downgrading("3.5", "3.5", "3.6.16", "3.5.35"), "3.5.20", true, "member a"},
		{"enabled, and further down", downgrading("3.5", "3.5", "3.6.16", "3.5.35"), "3.4.30", true, "member a"},
		{"enabled, and given up", downgrading("3.5", "3.5", "3.6.16", "3.5.35"), "3.6.16", false, ""},
		{"ended", running("3.5", "3.5.35", "3.5.35"), "3.5.35", false, ""},
		{"an upgrade is given up half-way", running("3.5", "3.6.16", "3.5.35"), "3.5.35", false, ""},
		{
			"an upgrade is given up when all have it, and the leader has not noticed", running("3.5", "3.6.16", "3.6.16"),
			"3.5.35", false, "data format is older",
		},
		{"nobody tells the cluster version", running("", "3.6.16", "3.6.16"), "3.5.35", false, "data format is older"},
		{"malformed", running("3.6", "3.6.16"), "3.5", false, "malformed"},
	} {
		err := MayChangeVersion(c.survey, c.target)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if got := c.survey.Downgrades(c.target); got != c.downgrade {
			t.Errorf("%s: a downgrade: %v", c.name, got)
		}
	}
}

// storing returns a cluster whose members have data of these versions.
func storing(downgrade string, versions ...string) View {
	v := clusterOf(strings.Repeat("h", len(versions)))
	for i, version := range versions {
		v.Members[i].Storage = version
	}
	v.Downgrade = downgrade
	return v
}

func TestNextDowngradeStep(t *testing.T) {
	for _, c := range []struct {
		name   string
		view   View
		agreed string
		want   DowngradeStep
	}{
		{"not begun", storing("", "3.6", "3.6", "3.6"), "3.6", DowngradeEnable},
		{"enabled just now", storing("3.5", "3.6", "3.6", "3.6"), "3.6", DowngradeWait},
		{"the cluster version is not known", storing("3.5", "3.5", "3.5", "3.5"), "", DowngradeWait},
		{"one has not converted its data", storing("3.5", "3.5", "3.5", "3.6"), "3.5", DowngradeWait},
		{"all have", storing("3.5", "3.5", "3.5", "3.5"), "3.5", DowngradeNone},
		{"half-way", storing("3.5", "", "3.5", ""), "3.5", DowngradeNone},
		{"an upgrade is given up", storing("", "", "3.5", ""), "3.5", DowngradeNone},
		{"an upgrade is given up, and one has raised its data", storing("", "", "3.6", ""), "3.5", DowngradeWait},
		{"cancelled by somebody else", storing("", "3.6", "3.5", "3.5"), "3.6", DowngradeEnable},
	} {
		if got := NextDowngradeStep(c.view, c.agreed, "3.5.35"); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestAbandonedDowngrade(t *testing.T) {
	enabled := storing("3.5", "3.5")
	for target, want := range map[string]string{"3.6.16": "3.5", "3.7.3": "3.5", "3.5.35": "", "3.5.20": "", "x": ""} {
		got, drift := AbandonedDowngrade(&enabled, target), DowngradeDrift("cp1", &enabled, target)
		if got != want || (len(drift) > 0) != (want != "") {
			t.Errorf("%s: %q, %v", target, got, drift)
		}
	}
	if words := DowngradeDrift("cp1", &enabled, "3.6.16"); len(words) != 1 ||
		!strings.HasPrefix(words[0], "cp1: a downgrade of the cluster to etcd 3.5 is enabled") {
		t.Errorf("%v", words)
	}
	none := storing("", "3.6")
	if AbandonedDowngrade(&none, "3.6.16") != "" || AbandonedDowngrade(nil, "3.6.16") != "" ||
		DowngradeDrift("cp1", nil, "3.6.16") != nil {
		t.Error("a downgrade where none is enabled")
	}
}

func TestDowngradeEnded(t *testing.T) {
	v := clusterOf("Lhh")
	for _, c := range []struct {
		versions [3]string
		want     bool
	}{
		{[3]string{"3.5.35", "3.5.35", "3.5.35"}, true},
		{[3]string{"3.5.34", "3.5.35", "3.5.32"}, true},
		{[3]string{"3.5.35", "3.5.35", "3.6.16"}, false},
		{[3]string{"3.5.35", "", "3.5.35"}, false},
	} {
		for i, version := range c.versions {
			v.Members[i].Version = version
		}
		if got := DowngradeEnded(v, "3.5.35"); got != c.want {
			t.Errorf("%v: %v", c.versions, got)
		}
	}
}

func TestMayJoinAs(t *testing.T) {
	half := downgrading("3.5", "3.5", "3.6.16", "3.5.35")
	for _, c := range []struct {
		name    string
		survey  Survey
		version string
		want    string
	}{
		{"as the others", running("3.6", "3.6.16"), "3.6.16", ""},
		{"older than the others", running("3.6", "3.6.16"), "3.5.35", "cluster version is 3.6"},
		{"the older one in a downgrade", half, "3.5.35", "no member of that version can join"},
		{"the newer one in a downgrade", half, "3.6.16", ""},
	} {
		err := MayJoinAs(c.survey, c.version)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestMinorReported(t *testing.T) {
	for version, want := range map[string]string{
		"3.6.0": "3.6", "3.5.35": "3.5", "": "", "3.6": "", "v3.6.0": "", "3.6.0-rc": "",
	} {
		if got := MinorReported(version); got != want {
			t.Errorf("%q: %q, want %q", version, got, want)
		}
	}
}
