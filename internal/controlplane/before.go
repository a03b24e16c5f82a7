package controlplane

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// beforePath is there while a change is under way, and says what ran well until
// then: should the change not come up, in this run or in one after a cut, that is
// what the replica goes back to. It holds no secret.
const beforePath = kubernetesDir + "/replica.before.json"

// before is what a replica ran: its definitions, and what of the record follows
// from them and from its settings. Files that the bundle decides are not in it: it is only gone back to
// while the bundle's generations are the same. Nor are certificates and
// kubeconfigs, which are issued for whatever is to run.
type before struct {
	Version     string            `json:"version"` // of the API server
	Port        int               `json:"port"`
	Etcd        []string          `json:"etcd"`
	Generations map[pki.Part]int  `json:"generations"`
	Definitions map[string]string `json:"definitions"` // component → unit file
	Settings    map[string]string `json:"settings"`    // path → content: see settingFiles
}

func (b before) file() host.File {
	text, _ := json.MarshalIndent(b, "", "  ") // strings and numbers always encode
	return host.File{Path: beforePath, Content: append(text, '\n'), Mode: secretMode, Owner: "root", Group: "root"}
}

// wayBack is what a change to s can be taken back to, nil for nothing: what runs
// now where all of it is well, or else what did when the change began, which was
// then cut off. A stage of a rotation is never taken back by itself: others may
// count on it.
func wayBack(ctx context.Context, s Spec, rt runtime, f found) *before {
	target := s.Bundle.Generations()
	if !sameGenerations(f.record.Generations, target) {
		return nil
	}
	if f.record.Port != 0 && behind(f.facts, release.Components()) == nil && well(ctx, f.asFound(s), rt) {
		now := before{
			Version: f.effectiveVersion(rt, release.APIServer), Port: f.record.Port, Etcd: f.record.Etcd,
			Generations: target, Definitions: map[string]string{}, Settings: map[string]string{},
		}
		for _, path := range settingPaths() {
			if file, there := f.facts.Files[path]; there {
				now.Settings[path] = file.Content
			}
		}
		for _, name := range release.Components() {
			now.Definitions[name] = f.facts.Files[unitPath(name)].Content
		}
		return &now
	}
	if f.before != nil && sameGenerations(f.before.Generations, target) {
		return f.before
	}
	return nil
}

// asFound is s where it serves until the change.
func (f found) asFound(s Spec) Spec {
	s.Port = f.record.Port
	return s
}

// well: all three components say that they are ready.
func well(ctx context.Context, s Spec, rt runtime) bool { return len(ailing(ctx, s, rt)) == 0 }

// ailing says of each component that is not ready why.
func ailing(ctx context.Context, s Spec, rt runtime) []string {
	parts := components(s, rt)
	health := make([]string, len(parts))
	var asking sync.WaitGroup
	for i, c := range parts {
		asking.Go(func() { health[i] = askOnce(ctx, s, c) })
	}
	asking.Wait()
	var words []string
	for i, c := range parts {
		if health[i] != healthy {
			words = append(words, c.name+" "+health[i])
		}
	}
	return words
}

// restored runs the components as they were defined before.
type restored struct {
	systemdRuntime
	before before
}

func (r restored) definition(c component) host.File {
	file := r.systemdRuntime.definition(c)
	file.Content = []byte(r.before.Definitions[c.name])
	return file
}
