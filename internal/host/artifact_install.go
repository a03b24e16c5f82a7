package host

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

//go:embed install.sh
var installFunctions string

// Exit codes of install.sh.
const (
	exitDigest      = 65
	exitNotFound    = 67
	exitNoTransport = 68
)

// Install installs those artifacts of src that the machine does not have with the right digest.
// Each is verified before it is renamed into place with mode 0755. It returns the transferred
// artifacts. It fails with ErrDigest if a digest differs and with ErrNoArtifact if an artifact
// is missing; an already installed file is then left unchanged.
//
// With a directory, the right digest is that of the local file. With URLs, it is the one
// recorded at the verified installation, so that installed artifacts need no network access.
// Installs on one machine run one at a time.
func (h *Host) Install(ctx context.Context, src Source, artifacts []Artifact) (transferred []Artifact, err error) {
	if err := checkInstall(src, artifacts); err != nil {
		return nil, fmt.Errorf("install on %s: %w", h.Address(), err)
	}
	m, err := h.pool.machine(h.Address())
	if err != nil {
		return nil, fmt.Errorf("install: %w", err)
	}
	select {
	case m.install <- struct{}{}:
		defer func() { <-m.install }()
	case <-ctx.Done():
		return nil, fmt.Errorf("install on %s: %w", h.Address(), ctx.Err())
	}
	facts, err := h.Observe(ctx, Query{Binaries: artifactPaths(artifacts)})
	if err != nil {
		return nil, err
	}
	if src.Directory != "" {
		return h.upload(ctx, src, artifacts, facts)
	}
	return h.fetch(ctx, src, artifacts, facts)
}

func checkInstall(src Source, artifacts []Artifact) error {
	if err := src.Validate(); err != nil {
		return err
	}
	for _, a := range artifacts {
		if err := a.check(); err != nil {
			return err
		}
	}
	return nil
}

func artifactPaths(artifacts []Artifact) []string {
	var paths []string
	for _, a := range artifacts {
		paths = append(paths, a.Path())
	}
	return paths
}

// upload sends the missing artifacts one by one. All local digests are computed first, so
// nothing is sent if an artifact is missing.
func (h *Host) upload(
	ctx context.Context, src Source, artifacts []Artifact, facts Facts,
) (transferred []Artifact, err error) {
	type item struct {
		Artifact
		digest string
		size   int64
	}
	var missing []item
	for _, a := range artifacts {
		digest, size, err := h.pool.digests.digest(src.localPath(a))
		if err != nil {
			return nil, fmt.Errorf("install %s on %s: %w", a, h.Address(), err)
		}
		if !installed(facts, a, digest) {
			missing = append(missing, item{a, digest, size})
		}
	}
	for _, i := range missing {
		problem.Progress(ctx, "uploading %s (%d MB) to %s", i.Artifact, i.size/1_000_000, h.Address())
		if err := h.send(ctx, src.localPath(i.Artifact), i.Artifact, i.size, i.digest); err != nil {
			return transferred, err
		}
		transferred = append(transferred, i.Artifact)
	}
	return transferred, nil
}

// installed reports whether the machine has a, executable and with this digest.
func installed(facts Facts, a Artifact, digest string) bool {
	state, there := facts.Files[a.Path()]
	return there && state.Mode == 0o755 && state.SHA256 == digest
}

func (h *Host) send(ctx context.Context, local string, a Artifact, size int64, digest string) error {
	file, err := os.Open(local) //nolint:gosec // the user's own artifact directory
	if err != nil {
		return fmt.Errorf("install %s on %s: %w", a, h.Address(), err)
	}
	defer func() { _ = file.Close() }()
	_, err = h.execute(ctx, job{
		summary: "upload " + a.String(),
		script:  installScript([]string{"receive", a.Path(), strconv.FormatInt(size, 10), digest}),
		stdin:   file,
	})
	return installError(h.Address(), a.String(), err)
}

// fetch makes the machine download artifacts that are missing or were altered since their
// installation.
func (h *Host) fetch(
	ctx context.Context, src Source, artifacts []Artifact, facts Facts,
) (transferred []Artifact, err error) {
	var missing []Artifact
	for _, a := range artifacts {
		recorded := facts.Files[a.Path()].Recorded
		if recorded == "" || !installed(facts, a, recorded) {
			missing = append(missing, a)
		}
	}
	downloads, err := src.downloads(missing, facts.Architecture)
	if err != nil {
		return nil, fmt.Errorf("install on %s: %w", h.Address(), err)
	}
	for _, d := range downloads {
		problem.Progress(ctx, "%s fetches %s", h.Address(), d.url)
		_, err := h.execute(ctx, job{summary: "fetch " + d.url, script: installScript(fetchCalls(d)...)})
		if err := installError(h.Address(), d.url, err); err != nil {
			return transferred, err
		}
		transferred = append(transferred, d.artifacts...)
	}
	return transferred, nil
}

// fetchCalls returns the shell calls for one download.
func fetchCalls(d download) [][]string {
	calls := [][]string{{"download", d.url, d.checksum, path.Dir(d.artifacts[0].Path())}}
	if !d.archive {
		return append(calls, []string{"take_file", d.artifacts[0].Path()})
	}
	calls = append(calls, []string{"unpack"})
	for _, a := range d.artifacts {
		calls = append(calls, []string{"take", a.Path()})
	}
	return calls
}

func installScript(calls ...[]string) string {
	var b strings.Builder
	b.WriteString(withoutComments(flushFunction + stagingFunctions + installFunctions))
	b.WriteString("token=" + newToken() + "\n")
	for _, words := range calls {
		b.WriteString(shellescape.QuoteCommand(words) + "\n")
	}
	return b.String()
}

// installError maps the exit codes of install.sh to sentinel errors.
func installError(address, what string, err error) error {
	var exit *ExitError
	if !errors.As(err, &exit) {
		return err
	}
	switch exit.Code {
	case exitDigest:
		err = fmt.Errorf("%w: %s", ErrDigest, exit.Stderr)
	case exitNotFound:
		err = fmt.Errorf("%w: %s", ErrNoArtifact, exit.Stderr)
	case exitNoTransport:
		err = fmt.Errorf("%s: install curl, or upload from a directory", exit.Stderr)
	}
	return fmt.Errorf("install %s on %s: %w", what, address, err)
}
