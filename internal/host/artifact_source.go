package host

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Source is where artifacts come from: a local directory uploaded over SSH, or URL templates
// that the machine itself downloads from. It is a plain value.
type Source struct {
	// Directory is a directory on this computer that contains PRODUCT-vVERSION/NAME, for
	// example etcd-v3.6.16/etcd or kubernetes-v1.36.3/kube-apiserver. If there is a file
	// NAME.sha256 next to it, it must match. If Directory is set, URLs are not used.
	Directory string
	// URLs by product. {version} (without "v"), {arch} and {name} are replaced. A URL that ends
	// in .tar.gz is an archive that contains a file called NAME.
	URLs map[string]URLTemplate
}

// URLTemplate is an https URL and the URL of its published checksum, a file that contains
// either one hex SHA-256, or "digest filename" lines.
type URLTemplate struct {
	URL      string
	Checksum string
}

// DefaultSource returns the upstream release locations with their published checksums.
func DefaultSource() Source {
	const (
		kubernetes = "https://dl.k8s.io/release/v{version}/bin/linux/{arch}/{name}"
		store      = "https://github.com/kubequorum/terraform-provider-kube/releases/download/v{version}/" +
			"{name}_{version}_linux_{arch}.tar.gz"
		etcd = "https://github.com/etcd-io/etcd/releases/download/v{version}/"
	)
	return Source{URLs: map[string]URLTemplate{
		"kubernetes": {URL: kubernetes, Checksum: kubernetes + ".sha256"},
		// the version is the provider's own
		"kube-snapshot-store": {URL: store, Checksum: store + ".sha256"},
		"etcd":                {URL: etcd + "etcd-v{version}-linux-{arch}.tar.gz", Checksum: etcd + "SHA256SUMS"},
	}}
}

// Validate returns a *ConfigError for a source that can never provide an artifact: neither
// directory nor URLs, a missing directory, a URL that is not https, an unknown placeholder.
func (s Source) Validate() error {
	if s.Directory != "" {
		info, err := os.Stat(s.Directory)
		if err != nil {
			return &ConfigError{"directory", err}
		}
		if !info.IsDir() {
			return &ConfigError{"directory", fmt.Errorf("%s is not a directory", s.Directory)}
		}
		return nil
	}
	if len(s.URLs) == 0 {
		return &ConfigError{"urls", errors.New("neither a directory nor a URL is set")}
	}
	for _, product := range slices.Sorted(maps.Keys(s.URLs)) {
		t := s.URLs[product]
		if err := checkTemplate(t.URL); err != nil {
			return &ConfigError{"urls." + product + ".url", err}
		}
		if err := checkTemplate(t.Checksum); err != nil {
			return &ConfigError{"urls." + product + ".checksum", err}
		}
	}
	return nil
}

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

func checkTemplate(template string) error {
	for _, match := range placeholder.FindAllString(template, -1) {
		if match != "{version}" && match != "{arch}" && match != "{name}" {
			return fmt.Errorf("%q: unknown placeholder %s; there are {version}, {arch} and {name}", template, match)
		}
	}
	plain := placeholder.ReplaceAllString(template, "x")
	if strings.ContainsAny(plain, "{} \t\n") {
		return fmt.Errorf("%q: unbalanced braces or white space", template)
	}
	parsed, err := url.Parse(plain)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a URL", template)
	case parsed.Scheme != "https":
		return fmt.Errorf("%q: only https is allowed, because the checksum comes from the same source", template)
	case parsed.Host == "" || parsed.User != nil:
		return fmt.Errorf("%q: want a host name without user and password", template)
	}
	return nil
}

// localPath returns the path of a in a directory source.
func (s Source) localPath(a Artifact) string {
	return filepath.Join(s.Directory, a.Product+"-v"+a.Version, a.Name)
}

// Has reports whether a is a file of a directory source.
func (s Source) Has(a Artifact) bool {
	if s.Directory == "" || a.check() != nil {
		return false
	}
	info, err := os.Stat(s.localPath(a))
	return err == nil && info.Mode().IsRegular()
}

// download is one file to fetch and the artifacts to extract from it. Artifacts of the same
// archive are fetched together.
type download struct {
	url, checksum string
	archive       bool
	artifacts     []Artifact
}

// downloads groups artifacts by URL, in the requested order.
func (s Source) downloads(artifacts []Artifact, architecture string) ([]download, error) {
	var all []download
	for _, a := range artifacts {
		template, ok := s.URLs[a.Product]
		if !ok {
			return nil, fmt.Errorf("%w: the source has no URL for %s", ErrNoArtifact, a.Product)
		}
		expand := strings.NewReplacer("{version}", a.Version, "{arch}", architecture, "{name}", a.Name).Replace
		d := download{url: expand(template.URL), checksum: expand(template.Checksum), artifacts: []Artifact{a}}
		d.archive = strings.HasSuffix(d.url, ".tar.gz")
		same := slices.IndexFunc(all, func(other download) bool { return other.url == d.url && other.archive })
		if same >= 0 {
			all[same].artifacts = append(all[same].artifacts, a)
			continue
		}
		all = append(all, d)
	}
	return all, nil
}
