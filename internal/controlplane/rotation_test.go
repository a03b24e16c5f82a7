package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

func generations(kubernetes, encryption int) map[pki.Part]int {
	return map[pki.Part]int{pki.KubernetesPart: kubernetes, pki.EncryptionPart: encryption}
}

func TestCheckStages(t *testing.T) {
	stands := func(name string, kubernetes, encryption int) replicaStatus {
		return replicaStatus{name: name, address: "10.0.0.12", generations: generations(kubernetes, encryption)}
	}
	dead := replicaStatus{name: "cp3", address: "10.0.0.13", unknown: fmt.Errorf("connect: %w", host.ErrUnreachable)}
	unsettled := replicaStatus{
		name: "cp3", address: "10.0.0.13", unknown: errors.New("kube-apiserver was started with another sa.pub"),
	}
	for _, c := range []struct {
		name   string
		target map[pki.Part]int
		others []replicaStatus
		joins  bool
		want   []string // parts of the refusal; none if it is allowed
	}{
		{name: "alone", target: generations(3, 0)},
		{
			name: "the first to go", target: generations(1, 0),
			others: []replicaStatus{stands("cp2", 0, 0), stands("cp3", 0, 0)},
		},
		{
			name: "the last to go", target: generations(1, 0),
			others: []replicaStatus{stands("cp2", 1, 0), stands("cp3", 1, 0)},
		},
		{name: "two stages behind the others' next", target: generations(2, 0), others: []replicaStatus{stands("cp2", 1, 0)}},
		{name: "back", target: generations(2, 0), others: []replicaStatus{stands("cp2", 3, 0)}},
		{
			name: "another one is two stages behind", target: generations(2, 1),
			others: []replicaStatus{stands("cp2", 0, 0), stands("cp3", 1, 0)},
			want: []string{
				"replica cp2 (10.0.0.12) is at generation 0 of kubernetes", "would go to 2",
				"set rotation.kubernetes back to 1, apply, then raise it again",
			},
		},
		{
			name: "another one is two stages ahead", target: generations(0, 3), others: []replicaStatus{stands("cp2", 0, 5)},
			want: []string{
				"is at generation 5 of encryption",
				"use the state of kube_pki_bundle of generation 5 or 4 of encryption. Do not raise rotation.encryption",
			},
		},
		{
			name: "unreachable", target: generations(1, 0), others: []replicaStatus{stands("cp2", 1, 0), dead},
			want: []string{
				"cannot determine the rotation stage of replica cp3 (10.0.0.13)", "bring it back", "destroy its replica",
			},
		},
		{
			name: "in the middle of a change", target: generations(1, 0), others: []replicaStatus{unsettled},
			want: []string{"another sa.pub"},
		},
		{
			name: "a new one, answered for", target: generations(3, 0), others: []replicaStatus{stands("cp2", 3, 0), dead},
			joins: true,
		},
		{
			name: "a new one, not answered for", target: generations(3, 0), others: []replicaStatus{stands("cp2", 2, 0), dead},
			joins: true, want: []string{"cannot determine"},
		},
		{
			name: "a new one beside one that is being changed", target: generations(3, 0),
			others: []replicaStatus{stands("cp2", 3, 0), unsettled}, joins: true, want: []string{"cannot determine"},
		},
		{
			name: "a new one, and neither an empty machine nor a dead one answers for it", target: generations(0, 0),
			others: []replicaStatus{{name: "cp2", absent: true}, dead}, joins: true, want: []string{"cannot determine"},
		},
		{name: "nothing there", target: generations(3, 0), others: []replicaStatus{{name: "cp3", absent: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := checkStages(testSpec(t), c.target, c.others, c.joins)
			if (err == nil) != (len(c.want) == 0) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			for _, want := range c.want {
				if !strings.Contains(cptest.Text(err), want) {
					t.Errorf("%q is not in %v", want, err)
				}
			}
			if err != nil && (!errors.Is(err, errRotationNotYet) || !problem.Untouched(err)) {
				t.Errorf("not waited for: %v", err)
			}
		})
	}
}

// TestOtherKeys: a CA or key that was withdrawn and introduced again is another one, whatever its number. A replica
// that still has the first one keeps the others from signing with the second.
func TestOtherKeys(t *testing.T) {
	for _, part := range []pki.Part{pki.KubernetesPart, pki.ServiceAccountPart} {
		base := cptest.Bundle(t)
		// Each of the two goes its own way from the first generation on.
		first, second := cptest.At(t, base, part, 1), cptest.At(t, base, part, 1)
		at := func(b *pki.Bundle, n int) *pki.Bundle { return cptest.At(t, b, part, n) }
		for name, c := range map[string]struct {
			wanted, other *pki.Bundle
			refused       bool
		}{
			"to the introduction, as before it":              {second, base, false},
			"to the introduction, another one is there":      {second, first, false},
			"to the introduction, the same is adopted":       {second, at(second, 2), false},
			"to the introduction, another one is adopted":    {second, at(first, 2), true},
			"to the adoption, the same is introduced":        {at(second, 2), second, false},
			"to the adoption, another one is introduced":     {at(second, 2), first, true},
			"to the adoption, another one is adopted":        {at(second, 2), at(first, 2), true},
			"to the adoption, the same is alone":             {at(second, 2), at(second, 3), false},
			"to the adoption, another one is alone":          {at(second, 2), at(first, 3), true},
			"to the end, the same is adopted":                {at(second, 3), at(second, 2), false},
			"to the end, another one is adopted":             {at(second, 3), at(first, 2), true},
			"to the end, the same is alone":                  {at(second, 3), at(second, 3), false},
			"to the end, another one is alone":               {at(second, 3), at(first, 3), true},
			"back to the beginning, which does not know it":  {at(second, 0), first, false},
			"back to the adoption, the same is introduced":   {at(at(second, 3), 2), second, false},
			"to the next introduction, the same is alone":    {at(second, 4), at(second, 3), false},
			"to the next introduction, another one is alone": {at(second, 4), at(first, 3), true},
		} {
			s := testSpec(t)
			s.Bundle = c.other
			other := replicaStatus{name: "cp2"}
			f := converged(t, s)
			f.Record.Name = other.name
			other.read(s.Bundle.ClusterID, f)
			s.Bundle = c.wanted
			err := checkStages(s, s.Bundle.Generations(), []replicaStatus{other}, false)
			if (err != nil) != c.refused || err != nil && (!errors.Is(err, errRotationNotYet) ||
				!strings.Contains(err.Error(), "than the bundle has there: they would not trust each other") ||
				!strings.Contains(err.Error(), "an earlier state of kube_pki_bundle")) {
				t.Errorf("%s of %s: %v", name, part, err)
			}
		}
	}
}

// TestOwnKeys: a replica that signs with what it has adopted keeps it, because no stage of a bundle that has introduced
// another one verifies what it has signed.
func TestOwnKeys(t *testing.T) {
	for _, part := range []pki.Part{pki.KubernetesPart, pki.ServiceAccountPart, pki.EncryptionPart} {
		base := cptest.Bundle(t)
		first, second := cptest.At(t, base, part, 1), cptest.At(t, base, part, 1)
		at := func(b *pki.Bundle, n int) *pki.Bundle { return cptest.At(t, b, part, n) }
		for name, c := range map[string]struct {
			has, wanted *pki.Bundle
			edited      bool
			refused     bool
		}{
			"it has introduced another one": {first, at(second, 2), false, false},
			"back, the same":                {at(first, 2), first, false, false},
			"back, another one":             {at(first, 2), second, false, true},
			"the same number, another one":  {at(first, 2), at(second, 2), false, true},
			"forth, the same":               {at(first, 2), at(first, 3), false, false},
			"forth, another one":            {at(first, 2), at(second, 3), false, true},
			"forth, edited on the disk":     {at(first, 2), at(first, 3), true, false},
		} {
			s := testSpec(t)
			s.Bundle = c.has
			f := converged(t, s)
			if c.edited {
				edit(&f, component.CACert, "x")
				edit(&f, component.SAPub, "x")
			}
			s.Bundle = c.wanted
			err := checkOwnKeys(s, f)
			if (err != nil) != (c.refused && part.Signs()) {
				t.Errorf("%s of %s: %v", name, part, err)
			}
			if err != nil && (errors.Is(err, errRotationNotYet) || !problem.Untouched(err)) {
				t.Errorf("%s of %s: waited for: %v", name, part, err)
			}
		}
	}
}

// TestOtherEncryption: a key that was withdrawn and introduced again is another one, whatever its number. A replica
// that still has the first one keeps the others from writing with the second.
func TestOtherEncryption(t *testing.T) {
	base := cptest.Bundle(t)
	// Each of the two goes its own way from the first generation on.
	first, second := cptest.At(t, base, pki.EncryptionPart, 1), cptest.At(t, base, pki.EncryptionPart, 1)
	at := func(b *pki.Bundle, n int) *pki.Bundle { return cptest.At(t, b, pki.EncryptionPart, n) }
	for name, c := range map[string]struct {
		wanted, other *pki.Bundle
		refused       bool
	}{
		"to the introduction, as before it":              {second, base, false},
		"to the introduction, another key is there":      {second, first, false},
		"to the introduction, the same is there":         {second, second, false},
		"to the introduction, the same is adopted":       {second, at(second, 2), false},
		"to the introduction, another one is adopted":    {second, at(first, 2), true},
		"to the adoption, the same is introduced":        {at(second, 2), second, false},
		"to the adoption, another one is introduced":     {at(second, 2), first, true},
		"to the adoption, the same is alone":             {at(second, 2), at(second, 3), false},
		"to the adoption, another one is alone":          {at(second, 2), at(first, 3), true},
		"to the end, the same is adopted":                {at(second, 3), at(second, 2), false},
		"to the end, another one is adopted":             {at(second, 3), at(first, 2), true},
		"to the end, the same is alone":                  {at(second, 3), at(second, 3), false},
		"back to the beginning, which does not know it":  {at(second, 0), first, false},
		"to the next introduction, the same is alone":    {at(second, 4), at(second, 3), false},
		"to the next introduction, another one is alone": {at(second, 4), at(first, 3), true},
		"back to the end, as before it":                  {at(at(second, 4), 3), at(second, 2), false},
		"back to the end, another one is adopted":        {at(at(second, 4), 3), at(first, 2), true},
	} {
		s := testSpec(t)
		s.Bundle = c.other
		other := replicaStatus{name: s.Name}
		other.read(s.Bundle.ClusterID, converged(t, s))
		s.Bundle = c.wanted
		err := checkStages(s, s.Bundle.Generations(), []replicaStatus{other}, false)
		if (err != nil) != c.refused || err != nil && (!errors.Is(err, errRotationNotYet) ||
			!strings.Contains(err.Error(), "with another key than the bundle has there")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestChangesKeys: another CA or key of the same stage is a move that the others are asked about; a repair is none.
func TestChangesKeys(t *testing.T) {
	for part, file := range map[pki.Part]string{
		pki.KubernetesPart: component.CACert, pki.ServiceAccountPart: component.SAPub,
	} {
		base := cptest.Bundle(t)
		first, second := cptest.At(t, base, part, 1), cptest.At(t, base, part, 1)
		for name, c := range map[string]struct {
			wanted          *pki.Bundle
			edited, changes bool
		}{
			"the same":             {first, false, false},
			"another one":          {second, false, true},
			"edited on the disk":   {first, true, false},
			"edited, another one":  {second, true, true},
			"another stage of it":  {cptest.At(t, first, part, 2), false, true},
			"of another bundle":    {cptest.At(t, second, part, 2), false, true},
			"back where it is not": {base, false, true},
		} {
			s := testSpec(t)
			s.Bundle = first
			f := converged(t, s)
			if c.edited {
				edit(&f, file, "x")
			}
			s.Bundle = c.wanted
			s.Registrar = &recordingRegistrar{unasked: errAsked}
			if err := NewReplicas(nil).checkRotation(t.Context(), s, f); errors.Is(err, errAsked) != c.changes {
				t.Errorf("%s of %s: %v", name, part, err)
			}
		}
		s := testSpec(t)
		s.Bundle = cptest.At(t, first, part, 3)
		f := converged(t, s)
		s.Bundle = cptest.At(t, second, part, 3)
		if changesKeys(s, f) {
			t.Errorf("%s: a file and its process that differ between rotations are no repair", part)
		}
	}
}

// TestChangesEncryption: another key of the same stage is a move that the others are asked about; a repair is none.
func TestChangesEncryption(t *testing.T) {
	base := cptest.Bundle(t)
	first, second := cptest.At(t, base, pki.EncryptionPart, 1), cptest.At(t, base, pki.EncryptionPart, 1)
	for name, c := range map[string]struct {
		has, wanted *pki.Bundle
		edited      bool
		changes     bool
	}{
		"without encryption":  {base, base, false, false},
		"the same":            {first, first, false, false},
		"another key":         {first, second, false, true},
		"edited on the disk":  {first, first, true, false},
		"edited, another key": {first, second, true, true},
	} {
		s := testSpec(t)
		s.Bundle = c.has
		f := converged(t, s)
		if c.edited {
			edit(&f, component.EncryptionConfigPath, "x")
		}
		s.Bundle = c.wanted
		if got := changesKeys(s, f); got != c.changes {
			t.Errorf("%s: %v", name, got)
		}
		s.Registrar = &recordingRegistrar{unasked: errAsked}
		if err := NewReplicas(nil).checkRotation(t.Context(), s, f); errors.Is(err, errAsked) != c.changes {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOwnStage: a replica that has signed with a key until now does not go where that key is dropped.
func TestOwnStage(t *testing.T) {
	of := func(p pki.Part, n int) map[pki.Part]int { return map[pki.Part]int{p: n} }
	stands := func(p pki.Part, n int) replicaStatus { return replicaStatus{name: "cp2", generations: of(p, n)} }
	for _, part := range pki.Parts() {
		signs := part == pki.KubernetesPart || part == pki.ServiceAccountPart
		for name, c := range map[string]struct {
			own, target int
			others      []replicaStatus
			refused     bool
		}{
			"stage by stage":                 {2, 3, []replicaStatus{stands(part, 2)}, false},
			"the adoption was missed":        {1, 3, []replicaStatus{stands(part, 2)}, true},
			"alone":                          {1, 3, nil, true},
			"alone, a rotation was missed":   {0, 3, []replicaStatus{{name: "cp3", absent: true}}, true},
			"the others are unknown":         {1, 3, []replicaStatus{{name: "cp2", unknown: errAsked}}, true},
			"no end":                         {0, 2, []replicaStatus{stands(part, 1)}, false},
			"back":                           {1, 0, []replicaStatus{stands(part, 1)}, false},
			"back from the end":              {4, 3, []replicaStatus{stands(part, 4)}, false},
			"put back from a backup":         {0, 3, []replicaStatus{stands(part, 3)}, false},
			"put back while others still go": {1, 3, []replicaStatus{stands(part, 2), stands(part, 3)}, false},
		} {
			err := checkOwnStage(testSpec(t), of(part, c.own), of(part, c.target), c.others)
			if (err != nil) != (c.refused && signs) {
				t.Errorf("%s, %s: %v", part, name, err)
			}
			if err != nil && (errors.Is(err, errRotationNotYet) || !problem.Untouched(err) ||
				!strings.Contains(err.Error(), fmt.Sprintf("set rotation.%s back to %d", part.Attribute(), c.target-1))) {
				t.Errorf("%s, %s: %v", part, name, err)
			}
		}
	}
}

// TestWithdrawnWithoutReplica: where the bundle alone went back by two stages, the step that is proposed leads to what
// the replica has. Another CA or key of the same number would not.
func TestWithdrawnWithoutReplica(t *testing.T) {
	for _, part := range pki.Parts() {
		signs := part.Signs() || part == pki.EncryptionPart
		base := encrypted(cptest.Bundle(t))
		adopted := cptest.At(t, base, part, 2)
		ended := cptest.At(t, base, part, 3)
		for name, c := range map[string]struct {
			from  *pki.Bundle
			to    int
			raise bool // the bundle knows the way
		}{
			"taken back":                      {adopted, 0, part == pki.EncryptionPart},
			"taken back in a second rotation": {cptest.At(t, ended, part, 5), 3, part == pki.EncryptionPart},
		} {
			s := testSpec(t)
			s.Bundle = cptest.At(t, c.from, part, c.to)
			own, target := c.from.Generations(), s.Bundle.Generations()
			raise := fmt.Sprintf("set rotation.%s to %d", part.Attribute(), own[part]-1)
			keep := fmt.Sprintf("use the state of kube_pki_bundle of generation %d or %d", own[part], own[part]-1)
			check := func(who string, err error) {
				text := cptest.Text(err)
				if strings.Contains(text, raise) != c.raise || strings.Contains(text, keep) == c.raise ||
					strings.Contains(text, "Do not raise rotation."+part.Attribute()) == c.raise {
					t.Errorf("%s, %s, %s: %v", part, name, who, err)
				}
			}
			err := checkOwnStage(s, own, target, nil)
			if signs {
				check("itself", err)
			} else if err != nil {
				t.Errorf("%s, %s: %v", part, name, err)
			}
			check("another", checkStages(s, target, []replicaStatus{{name: "cp2", generations: own}}, false))
		}
	}
	// An old bundle of encryption knows no key that would be introduced again.
	s := testSpec(t)
	s.Bundle = encrypted(s.Bundle)
	of := func(n int) map[pki.Part]int { return map[pki.Part]int{pki.EncryptionPart: n} }
	err := checkOwnStage(s, of(2), of(0), nil)
	if !strings.Contains(cptest.Text(err), "Do not raise rotation.encryption") {
		t.Errorf("an old bundle: %v", err)
	}
	at := []replicaStatus{{name: "cp2", generations: of(0)}}
	if err := checkOwnStage(s, of(2), of(0), at); err != nil {
		t.Errorf("put back from a backup: %v", err)
	}
}

// TestReplicaStatus: a process runs with the files on disk, or the difference is reported.
func TestReplicaStatus(t *testing.T) {
	started := unit.StartNotePath
	for _, c := range []struct {
		name  string
		alter func(*machine.Observed)
		want  string
	}{
		{"as it was made", func(*machine.Observed) {}, ""},
		{
			"a file replaced since", func(f *machine.Observed) { edit(f, component.SAPub, "x") },
			"kube-apiserver was started with another " + component.SAPub,
		},
		{
			"a unit replaced since", func(f *machine.Observed) { edit(f, unit.Path(release.Scheduler), "x") },
			"kube-scheduler was started with another",
		},
		{"a file that is reloaded", func(f *machine.Observed) { edit(f, component.ClientCA, "x") }, ""},
		{
			"no note", func(f *machine.Observed) { f.Facts.Files[started(release.APIServer)] = host.FileState{} },
			"kube-apiserver runs without a record of the files it has read",
		},
		{"stopped", func(f *machine.Observed) {
			f.Facts.Files[started(release.APIServer)] = host.FileState{}
			alterUnit(f, release.APIServer, func(u *host.UnitState) { u.Active = "inactive" })
		}, ""},
		{"between two starts", func(f *machine.Observed) {
			edit(f, component.SAPub, "x")
			alterUnit(f, release.APIServer, func(u *host.UnitState) { u.Active, u.Sub = "activating", "auto-restart" })
		}, ""},
		{"ending", func(f *machine.Observed) {
			edit(f, component.SAPub, "x")
			alterUnit(f, release.APIServer, func(u *host.UnitState) { u.Active = "deactivating" })
		}, "was started with another"},
		{"of an earlier version, whose etcd member has gone ahead", func(f *machine.Observed) {
			state := f.Facts.Files[started(release.APIServer)]
			state.Content += systemd.StartNoteEntry("0123", component.EtcdCA)
			f.Facts.Files[started(release.APIServer)] = state
		}, ""},
	} {
		f := converged(t, testSpec(t))
		c.alter(&f)
		if err := machine.StaleProcess(f, release.Components()); (c.want == "") != (err == nil) ||
			!strings.Contains(cptest.Text(err), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestStaleProcessChecksEveryInput(t *testing.T) {
	s := testSpec(t)
	s.Bundle = cptest.Encrypting(s.Bundle, cptest.Secretbox("key1", "secrets"))
	asked := strings.Join(append(machine.StatusQuery().Files, machine.StatusQuery().Contents...), " ")
	for _, c := range component.Of(s.Replica) {
		for _, path := range append([]string{unit.Path(c.Name)}, c.Inputs...) {
			if !strings.Contains(asked, path) {
				t.Errorf("%s of %s is not asked for", path, c.Name)
			}
		}
	}
}

// TestUnreachablePeers: no machine is changed while another one cannot be reached.
func TestUnreachablePeers(t *testing.T) {
	s := testSpec(t)
	f := converged(t, s)
	s.Registrar = &recordingRegistrar{others: map[string]string{"cp1": "10.0.0.11:6443", "cp2": "127.0.0.1:6443"}}
	r := NewReplicas(func(string) *host.Host { return unreachable(t).Host })
	if err := r.checkRotation(t.Context(), s, f); err != nil {
		t.Errorf("without a rotation: %v", err)
	}
	s.Bundle = cptest.At(t, s.Bundle, pki.KubernetesPart, 1)
	if err := r.checkRotation(t.Context(), s, f); !problem.Untouched(err) ||
		!strings.Contains(cptest.Text(err), "cannot determine the rotation stage of replica cp2 (127.0.0.1)") {
		t.Errorf("%v", err)
	}
	if _, err := r.EtcdTrust(t.Context(), "127.0.0.1"); !errors.Is(err, host.ErrUnreachable) {
		t.Errorf("%v", err)
	}
}

// TestHungPeer: the machine of another replica that accepts connections and hangs is named before the time is over.
func TestHungPeer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s := testSpec(t)
	pair, err := s.Bundle.Issue(component.SystemMasters(), time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	login := host.Credentials{Port: listener.Addr().(*net.TCPAddr).Port, PrivateKey: pair.PrivateKey}
	r := NewReplicas(func(at string) *host.Host { return testHost(t, host.Config{Credentials: login}, at) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	st := r.peerStatus(ctx, s, "cp2", "127.0.0.1:6443")
	if ctx.Err() != nil || !errors.Is(st.unknown, host.ErrNoAnswer) {
		t.Errorf("%v, %v", st.unknown, ctx.Err())
	}
}

func TestIntermediateStage(t *testing.T) {
	base := testSpec(t).Bundle
	for _, c := range []struct {
		name         string
		from, to     int
		cutOff, goes bool
	}{
		{name: "stage by stage", from: 2, to: 3},
		{name: "a stage was missed", from: 1, to: 3, goes: true},
		{name: "put back from a backup", from: 0, to: 3, goes: true},
		{name: "a stage was written and not taken", from: 2, to: 3, cutOff: true, goes: true},
		{name: "a stage was missed in which nothing is dropped", from: 0, to: 2},
		{name: "back", from: 4, to: 3},
	} {
		s := testSpec(t)
		s.Bundle = cptest.At(t, base, pki.EncryptionPart, c.from)
		f := converged(t, s)
		if c.cutOff {
			edit(&f, component.EncryptionConfigPath, "x")
		}
		s.Bundle = cptest.At(t, s.Bundle, pki.EncryptionPart, c.to)
		between, goes := intermediateStage(s, f)
		if goes != c.goes || goes && between.Bundle.Generation(pki.EncryptionPart) != c.to-1 {
			t.Errorf("%s: %v, generation %d", c.name, goes, between.Bundle.Generation(pki.EncryptionPart))
		}
		if s.Bundle.Generation(pki.EncryptionPart) != c.to {
			t.Errorf("%s: the wanted bundle was changed", c.name)
		}
	}
	s := testSpec(t)
	s.Bundle = cptest.At(t, base, pki.EncryptionPart, 1)
	f := converged(t, s)
	forgotten := *cptest.At(t, s.Bundle, pki.EncryptionPart, 3)
	forgotten.EncryptionRotation.Other, s.Bundle = nil, &forgotten
	if between, goes := intermediateStage(s, f); goes || between.Bundle != s.Bundle {
		t.Error("a stage whose encryption is unknown is gone through")
	}
}

func TestLosesTrust(t *testing.T) {
	old := testSpec(t).Bundle
	both := cptest.At(t, old, pki.EtcdPart, 1)
	last := cptest.At(t, both, pki.EtcdPart, 3)
	a, ab, b := old.Anchors(pki.Etcd), both.Anchors(pki.Etcd), last.Anchors(pki.Etcd)
	for _, c := range []struct {
		before, after string
		want          bool
	}{{"", a, false}, {a, a, false}, {a, ab, false}, {ab, ab, false}, {ab, b, true}, {ab, a, true}, {a, b, true}} {
		if pki.Loses(c.before, c.after) != c.want {
			t.Errorf("want %v for\n%s\n%s", c.want, c.before, c.after)
		}
	}
}
