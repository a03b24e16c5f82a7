package staticpod

import (
	"archive/tar"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestImport: an archive may have the architecture in the name of the image, and no other image counts.
func TestImport(t *testing.T) {
	for _, test := range []struct{ want, has, refused string }{
		{"r.example/etcd:1", "r.example/etcd:1", ""},
		{"r.example/etcd:1", "r.example/etcd-amd64:1", ""},
		{"r.example/etcd:1", "r.example/etcd-amd64:2", "but: r.example/etcd-amd64:2"},
		{"r.example/etcd:1", "r.example/other:1", "but: r.example/other:1"},
		{"r.example/etcd:1", "", "but: none with a name"},
	} {
		dir := t.TempDir()
		archive := filepath.Join(dir, "etcd.tar")
		writeArchive(t, archive, test.has)
		write(t, archive+".sha256", "")
		write(t, dir+"/imported", test.has+"\n")
		out, err := shell(t, dir, []string{"ctr"}, importArchive(test.want, archive))
		left, _ := filepath.Glob(archive + "*")
		if (err != nil) != (test.refused != "") || !strings.Contains(out, test.refused) || err == nil && len(left) > 0 {
			t.Errorf("%+v: %v, %q, files %v", test, err, out, left)
		}
		if err != nil {
			continue
		}
		// The machine has the image now, so no archive is read.
		if out, err := shell(t, dir, []string{"ctr"}, importArchive(test.want, archive)); err != nil {
			t.Errorf("%+v, again: %v, %q", test, err, out)
		}
	}
}

// writeArchive writes what docker save does, as far as an import reads it.
func writeArchive(t *testing.T, path, name string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	names := "null"
	if name != "" {
		names = `["` + name + `"]`
	}
	text := `[{"Config":"c.json","RepoTags":` + names + `,"Layers":["l.tar"]}]`
	w := tar.NewWriter(file)
	if err := w.WriteHeader(&tar.Header{Name: "manifest.json", Size: int64(len(text)), Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// node is a fake machine.
type node struct {
	lacks     string // what it prints when it is asked what it lacks
	installed []host.Artifact
	scripts   []string
}

func (n *node) Install(_ context.Context, _ host.Source, artifacts []host.Artifact) ([]host.Artifact, error) {
	n.installed = append(n.installed, artifacts...)
	return artifacts, nil
}

func (n *node) Run(_ context.Context, c host.Command) (string, error) {
	n.scripts = append(n.scripts, strings.TrimPrefix(string(c.Script), string(Functions())))
	return n.lacks, nil
}

// TestProvide: an archive is uploaded only if the machine lacks its image.
func TestProvide(t *testing.T) {
	source := host.Source{Directory: t.TempDir()}
	write(t, source.Directory+"/etcd-v1/etcd.tar", "archive")
	one := Image{"r.example/etcd:1", host.Artifact{Product: "etcd", Version: "1", Name: "etcd.tar"}}
	two := Image{"r.example/other:1", host.Artifact{Product: "etcd", Version: "1", Name: "other.tar"}}
	for name, test := range map[string]struct {
		source  host.Source
		lacks   string
		scripts []string
		upload  bool
	}{
		"no directory": {
			host.DefaultSource(), "", []string{"pod_pull r.example/etcd:1\npod_pull r.example/other:1\n"}, false,
		},
		"an archive": {source, "r.example/etcd:1\nwhat else it says\n", []string{
			"pod_lacks r.example/etcd:1\n",
			"pod_import r.example/etcd:1 /opt/kube/etcd/1/etcd.tar\npod_pull r.example/other:1\n",
		}, true},
		"an archive of what is there": {source, "", []string{
			"pod_lacks r.example/etcd:1\n", "pod_pull r.example/etcd:1\npod_pull r.example/other:1\n",
		}, false},
	} {
		n := &node{lacks: test.lacks}
		err := Provide(t.Context(), n, test.source, []Image{one, two})
		if err != nil || !slices.Equal(n.scripts, test.scripts) || (len(n.installed) == 1) != test.upload {
			t.Errorf("%s: %v, scripts %q, installed %v", name, err, n.scripts, n.installed)
		}
	}
}
