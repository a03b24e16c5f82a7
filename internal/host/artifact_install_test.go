package host

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

var (
	testEtcd    = Artifact{"etcd", "3.6.16", "etcd"}
	testEtcdctl = Artifact{"etcd", "3.6.16", "etcdctl"}
)

func install(t *testing.T, h *Host, src Source, artifacts ...Artifact) []Artifact {
	t.Helper()
	transferred, err := h.Install(t.Context(), src, artifacts)
	if err != nil {
		t.Fatal(err)
	}
	return transferred
}

// installedAt returns the path on this computer of a machine's artifact.
func installedAt(s *testServer, a Artifact) string {
	return filepath.Join(s.private, a.Path())
}

// artifactDirectory returns a source with etcd and etcdctl.
func artifactDirectory(t *testing.T) Source {
	t.Helper()
	src := Source{Directory: t.TempDir()}
	must(t, os.Mkdir(src.Directory+"/etcd-v3.6.16", 0o755))
	must(t, os.WriteFile(src.localPath(testEtcd), bytes.Repeat([]byte("etcd"), 500_000), 0o755))
	must(t, os.WriteFile(src.localPath(testEtcdctl), []byte("etcdctl"), 0o755))
	return src
}

func TestInstallFromDirectory(t *testing.T) {
	s, h := newRootMachine(t)
	src := artifactDirectory(t)
	var progress []string
	ctx := problem.WithReport(t.Context(), problem.Report{Progress: func(line string) {
		progress = append(progress, line)
	}})
	transferred, err := h.Install(ctx, src, []Artifact{testEtcd, testEtcdctl})
	must(t, err)
	if !slices.Equal(transferred, []Artifact{testEtcd, testEtcdctl}) {
		t.Errorf("transferred %v", transferred)
	}
	if want := "uploading etcd 3.6.16 (2 MB) to machine.test"; len(progress) != 2 || progress[0] != want {
		t.Errorf("progress %q", progress)
	}
	content, err := os.ReadFile(src.localPath(testEtcd))
	must(t, err)
	wantFile(t, installedAt(s, testEtcd), string(content), 0o755)
	if left := names(t, filepath.Dir(installedAt(s, testEtcd))); !slices.Equal(left,
		[]string{"etcd", "etcd.sha256", "etcdctl", "etcdctl.sha256"}) {
		t.Errorf("in the directory: %q", left)
	}

	commands := len(s.commandLines())
	if again := install(t, h, src, testEtcd, testEtcdctl); len(again) != 0 || len(s.commandLines()) != commands+1 {
		t.Errorf("the second time transferred %v with %d commands", again, len(s.commandLines())-commands)
	}

	facts, err := h.Observe(t.Context(), Query{Binaries: []string{testEtcd.Path()}})
	must(t, err)
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	if state := facts.Files[testEtcd.Path()]; state.SHA256 != sum || state.Recorded != sum {
		t.Errorf("state %+v", state)
	}

	// Damage: other content, another mode, no record, a damaged record.
	must(t, os.WriteFile(installedAt(s, testEtcd), []byte("altered"), 0o755))
	must(t, os.Chmod(installedAt(s, testEtcdctl), 0o700))
	facts, err = h.Observe(t.Context(), Query{Binaries: []string{testEtcd.Path()}})
	must(t, err)
	if state := facts.Files[testEtcd.Path()]; state.SHA256 == sum || state.Recorded != sum {
		t.Errorf("altered binary: %+v", state)
	}
	if repaired := install(t, h, src, testEtcd, testEtcdctl); len(repaired) != 2 {
		t.Errorf("repaired %v, want both", repaired)
	}
	wantFile(t, installedAt(s, testEtcd), string(content), 0o755)
	must(t, os.Remove(installedAt(s, testEtcd)+".sha256"))
	must(t, os.WriteFile(installedAt(s, testEtcdctl)+".sha256", []byte("nonsense"), 0o644))
	if again := install(t, h, src, testEtcd, testEtcdctl); len(again) != 0 {
		t.Errorf("right files without records were transferred again: %v", again)
	}
}

func TestInstallRefuses(t *testing.T) {
	s, h := newRootMachine(t)
	src := artifactDirectory(t)
	install(t, h, src, testEtcdctl)
	missing := Artifact{"etcd", "3.6.17", "etcd"}
	commands := len(s.commandLines())
	_, err := h.Install(t.Context(), src, []Artifact{testEtcd, missing})
	if !errors.Is(err, ErrNoArtifact) {
		t.Fatalf("error %v, want ErrNoArtifact", err)
	}
	mustContain(t, err, src.Directory+"/etcd-v3.6.17/etcd")
	if len(s.commandLines()) != commands+1 {
		t.Error("something was transferred although one artifact is not there")
	}

	must(t, os.WriteFile(src.localPath(testEtcdctl), []byte("tampered"), 0o755))
	must(t, os.WriteFile(src.localPath(testEtcdctl)+".sha256",
		fmt.Appendf(nil, "%x  etcdctl\n", sha256.Sum256([]byte("etcdctl"))), 0o644))
	if _, err := h.Install(t.Context(), src, []Artifact{testEtcdctl}); !errors.Is(err, ErrDigest) {
		t.Fatalf("error %v, want ErrDigest", err)
	}
	wantFile(t, installedAt(s, testEtcdctl), "etcdctl", 0o755)

	for _, bad := range []Artifact{{"../etcd", "1", "x"}, {"etcd", "1/2", "x"}, {"etcd", "1", ""}} {
		if _, err := h.Install(t.Context(), src, []Artifact{bad}); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	var setting *ConfigError
	if _, err := h.Install(t.Context(), Source{}, nil); !errors.As(err, &setting) {
		t.Errorf("empty source: %v, want a ConfigError", err)
	}
}

// TestInstallChecksWhatArrives sends content that differs from the announced one.
func TestInstallChecksWhatArrives(t *testing.T) {
	s, h := newRootMachine(t)
	src := artifactDirectory(t)
	install(t, h, src, testEtcdctl)
	wrong := strings.Repeat("0", 64)
	err := h.send(t.Context(), src.localPath(testEtcdctl), testEtcdctl, int64(len("etcdctl")), wrong)
	if !errors.Is(err, ErrDigest) {
		t.Fatalf("error %v, want ErrDigest", err)
	}
	wantFile(t, installedAt(s, testEtcdctl), "etcdctl", 0o755)
	if left := names(t, filepath.Dir(installedAt(s, testEtcdctl))); !slices.Equal(left,
		[]string{"etcdctl", "etcdctl.sha256"}) {
		t.Errorf("left behind: %q", left)
	}
}

func TestInstallOverLostNetwork(t *testing.T) {
	s, h := newRootMachine(t)
	src := artifactDirectory(t)
	s.cutAfter = 1_000_000
	if _, err := h.Install(t.Context(), src, []Artifact{testEtcd}); !errors.Is(err, ErrUnreachable) {
		t.Fatalf("error %v, want ErrUnreachable", err)
	}
	dir := filepath.Dir(installedAt(s, testEtcd))
	eventually(t, "the partial upload is removed", func() bool { return len(names(t, dir)) == 0 })
	must(t, os.WriteFile(dir+"/.etcd.kube-0123", []byte("of an earlier power cut"), 0o600))
	s.cutAfter = 0
	install(t, h, src, testEtcd)
	if left := names(t, dir); !slices.Equal(left, []string{"etcd", "etcd.sha256"}) {
		t.Errorf("in the directory: %q", left)
	}
}

// TestParallelInstalls: the second caller finds the files of the first one.
func TestParallelInstalls(t *testing.T) {
	_, h := newRootMachine(t)
	src := artifactDirectory(t)
	var total int
	var mu sync.Mutex
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			transferred, err := h.Install(t.Context(), src, []Artifact{testEtcd})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			total += len(transferred)
			mu.Unlock()
		})
	}
	callers.Wait()
	if total != 1 {
		t.Errorf("transferred %d times, want once", total)
	}
}

// mirror is an https server with an archive and a plain file. It counts downloads.
type mirror struct {
	*httptest.Server
	files map[string][]byte
	mu    sync.Mutex
	gets  []string
}

func newMirror(t *testing.T, s *testServer) *mirror {
	t.Helper()
	m := &mirror{files: map[string][]byte{}}
	m.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.gets = append(m.gets, r.URL.Path)
		if to, ok := strings.CutPrefix(r.URL.Path, "/to-http/"); ok {
			http.Redirect(w, r, "http://"+r.Host+"/"+to, http.StatusFound)
			return
		}
		content, ok := m.files[strings.TrimPrefix(r.URL.Path, "/moved")]
		switch {
		case !ok:
			http.NotFound(w, r)
		case strings.HasPrefix(r.URL.Path, "/moved"):
			http.Redirect(w, r, strings.TrimPrefix(r.URL.Path, "/moved"), http.StatusFound)
		default:
			_, _ = w.Write(content)
		}
	}))
	t.Cleanup(m.Close)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.Certificate().Raw}),
		0o600))
	must(t, os.WriteFile(authority+".wgetrc", []byte("ca_certificate = "+authority+"\n"), 0o600))
	s.environment = append(s.environment, "CURL_CA_BUNDLE="+authority, "WGETRC="+authority+".wgetrc")

	archive := tarball(t, map[string]string{
		"etcd-v3.6.16-linux/etcd":    "etcd program",
		"etcd-v3.6.16-linux/etcdctl": "etcdctl program", "etcd-v3.6.16-linux/Documentation/etcd/README": "x",
	})
	m.files["/etcd-3.6.16.tar.gz"] = archive
	m.files["/SHA256SUMS"] = fmt.Appendf(nil, "%064d  other.tar.gz\n%x  etcd-3.6.16.tar.gz\n", 0, sha256.Sum256(archive))
	m.files["/kubectl"] = []byte("kubectl program")
	m.files["/kubectl.sha256"] = fmt.Appendf(nil, "%x", sha256.Sum256([]byte("kubectl program")))
	return m
}

func (m *mirror) source(prefix string) Source {
	return Source{URLs: map[string]URLTemplate{
		"etcd":       {URL: m.URL + prefix + "/etcd-{version}.tar.gz", Checksum: m.URL + "/SHA256SUMS"},
		"kubernetes": {URL: m.URL + prefix + "/{name}", Checksum: m.URL + prefix + "/{name}.sha256"},
	}}
}

func tarball(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	compressed := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(compressed)
	for name, content := range files {
		must(t, archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)), Uid: 1000}))
		_, err := archive.Write([]byte(content))
		must(t, err)
	}
	must(t, archive.Close())
	must(t, compressed.Close())
	return buffer.Bytes()
}

func TestInstallFromURL(t *testing.T) {
	kubectl := Artifact{"kubernetes", "1.36.3", "kubectl"}
	for _, program := range []string{"curl", "wget"} {
		t.Run(program, func(t *testing.T) {
			s, h := newRootMachine(t)
			onlyDownloader(t, s, program)
			m := newMirror(t, s)
			transferred := install(t, h, m.source("/moved"), testEtcd, kubectl, testEtcdctl)
			if len(transferred) != 3 {
				t.Errorf("transferred %v", transferred)
			}
			wantFile(t, installedAt(s, testEtcd), "etcd program", 0o755)
			wantFile(t, installedAt(s, testEtcdctl), "etcdctl program", 0o755)
			wantFile(t, installedAt(s, kubectl), "kubectl program", 0o755)
			if owner := inodeOwner(t, installedAt(s, testEtcd)); owner != 0 {
				t.Errorf("owner %d", owner)
			}
			if n := strings.Count(strings.Join(m.gets, "\n"), "tar.gz"); n != 2 {
				t.Errorf("the archive was asked for %d times, want once, and once by its redirect", n)
			}
			gets := len(m.gets)
			if again := install(t, h, m.source(""), testEtcd, kubectl, testEtcdctl); len(again) != 0 || len(m.gets) != gets {
				t.Errorf("the second time fetched %v", again)
			}
			must(t, os.WriteFile(installedAt(s, kubectl), []byte("altered"), 0o755))
			if repaired := install(t, h, m.source(""), testEtcd, kubectl); !slices.Equal(repaired, []Artifact{kubectl}) {
				t.Errorf("repaired %v", repaired)
			}
			wantFile(t, installedAt(s, kubectl), "kubectl program", 0o755)
			for _, a := range []Artifact{testEtcd, kubectl} {
				for _, name := range names(t, filepath.Dir(installedAt(s, a))) {
					if strings.HasPrefix(name, ".") {
						t.Errorf("left behind: %s", name)
					}
				}
			}
			refuseDownloads(t, s, h, m)
		})
	}
}

func refuseDownloads(t *testing.T, s *testServer, h *Host, m *mirror) {
	t.Helper()
	tests := map[string]struct {
		artifact Artifact
		source   Source
		prepare  func()
		sentinel error
		want     string
	}{
		"no such version": {
			Artifact{"kubernetes", "9", "nothing"},
			m.source(""), nil, ErrNoArtifact,
			m.URL + "/nothing.sha256",
		},
		"not in archive": {
			Artifact{"etcd", "3.6.16", "etcdutl"},
			m.source(""), nil, ErrNoArtifact,
			"contains no file etcdutl",
		},
		"not in checksums": {
			Artifact{"etcd", "3.6.18", "etcd"},
			m.source(""), func() { m.files["/etcd-3.6.18.tar.gz"] = []byte("x") },
			ErrDigest, "no SHA-256 for etcd-3.6.18.tar.gz",
		},
		"checksum differs": {
			Artifact{"kubernetes", "2", "evil"}, m.source(""), func() {
				m.files["/evil"], m.files["/evil.sha256"] = []byte("evil"), fmt.Appendf(nil, "%x\n", sha256.Sum256([]byte("good")))
			}, ErrDigest, "SHA-256 mismatch",
		},
		"leads to http": {Artifact{"kubernetes", "3", "kubectl"}, m.source("/to-http"), nil, nil, "http"},
	}
	for name, test := range tests {
		if test.prepare != nil {
			test.prepare()
		}
		_, err := h.Install(t.Context(), test.source, []Artifact{test.artifact})
		if test.sentinel != nil && !errors.Is(err, test.sentinel) {
			t.Errorf("%s: %v, want %v", name, err, test.sentinel)
		}
		mustContain(t, err, test.want)
		if _, err := os.Stat(installedAt(s, test.artifact)); err == nil {
			t.Errorf("%s: it was installed", name)
		}
	}
}

// TestStalledDownload: a server that sends nothing more ends a download. It has the turn of its cluster.
func TestStalledDownload(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		testrun.Missing(t, "curl is missing")
	}
	ended := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("begun"))
		w.(http.Flusher).Flush()
		<-ended
	}))
	t.Cleanup(func() {
		close(ended)
		server.Close()
	})
	dir := t.TempDir()
	authority := filepath.Join(dir, "ca.pem")
	must(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		0o600))
	const after, tries = "--speed-time 60 ", "--retry 3 "
	if !strings.Contains(installFunctions, after) || !strings.Contains(installFunctions, tries) {
		t.Fatalf("the script does not have %q and %q", after, tries)
	}
	script := strings.NewReplacer(after, "--speed-time 1 ", tries, "").Replace(installFunctions)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, "sh", "-euc", script+"fetch \"$0\" \"$1\"", server.URL+"/etcd.tar.gz",
		filepath.Join(dir, "file"))
	command.Env = append(os.Environ(), "CURL_CA_BUNDLE="+authority)
	command.WaitDelay = time.Second // curl has the output
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 66 || !strings.Contains(string(out), "curl could not download") {
		t.Errorf("%v after %q", err, out)
	}
}

// onlyDownloader makes only one of the two programs available to commands.
func onlyDownloader(t *testing.T, s *testServer, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		testrun.Missing(t, program+" is missing")
	}
	if program == "curl" {
		return
	}
	s.hidden = append(s.hidden, "curl")
}

func TestInstallWithoutDownloader(t *testing.T) {
	s, h := newRootMachine(t)
	s.hidden = []string{"curl", "wget"}
	m := newMirror(t, s)
	_, err := h.Install(t.Context(), m.source(""), []Artifact{testEtcd})
	mustContain(t, err, "neither curl nor wget is installed")
}

func TestInstallCancelled(t *testing.T) {
	_, h := newRootMachine(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Install(ctx, artifactDirectory(t), []Artifact{testEtcd}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}
