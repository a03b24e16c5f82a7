package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// S3 configures the upload of scheduled snapshots to a bucket of an S3 server, by the program
// kube-snapshot-store (tools/snapshot-store). It has no credentials: they are in a file that the
// user puts on the machine.
type S3 struct {
	Endpoint        string      `json:"endpoint"`
	Region          string      `json:"region,omitempty"` // "": asked of the server
	Bucket          string      `json:"bucket"`
	Prefix          string      `json:"prefix,omitempty"`
	CredentialsFile string      `json:"credentials_file"` // on the machine
	CACertificate   string      `json:"ca_certificate,omitempty"`
	Recipients      []string    `json:"recipients,omitempty"` // of age, sorted; none: not encrypted
	ObjectLock      *ObjectLock `json:"object_lock,omitempty"`
	Kept            int         `json:"kept"` // verified snapshots in the bucket; 0: none is removed
}

// ObjectLock protects snapshots in a bucket from removal.
type ObjectLock struct {
	Mode string `json:"mode"` // one of LockModes
	Days int    `json:"days"`
}

// LockModes are the modes of object lock.
var LockModes = []string{"governance", "compliance"}

// DefaultStoreKept is the number of snapshots kept in a bucket: a week of hourly ones.
const DefaultStoreKept = 168

// storeFile is the configuration of kube-snapshot-store.
type storeFile struct {
	S3
	Cluster     string `json:"cluster"` // the ID: clusters of one name must not prune each other's snapshots
	ClusterName string `json:"cluster_name"`
}

// StorePath is the configuration of kube-snapshot-store on a machine.
const StorePath = layout.ConfigDir + "/snapshot-store.json"

// StoreProduct is the product and the name of the program on machines.
const StoreProduct = "kube-snapshot-store"

// storeRoot has a directory for each installed version of the program.
var storeRoot = path.Dir(path.Dir(storeProgram("0").Path()))

// storeProgram returns the program at a version.
func storeProgram(version string) host.Artifact {
	return host.Artifact{Product: StoreProduct, Version: version, Name: StoreProduct}
}

// Artifacts returns the programs that the scheduled snapshots of m need, besides etcd's.
func (m Member) Artifacts() []host.Artifact {
	if m.Settings == nil || m.Settings.S3 == nil {
		return nil
	}
	return []host.Artifact{storeProgram(m.StoreVersion)}
}

// FetchVars returns the variables with which a script gets a snapshot from the bucket of m: the program, its
// configuration, the file with its environment, which may name a proxy, and the name of the snapshot, "" for the newest
// verified one. The configuration may not be on the machine yet.
func (m Member) FetchVars(name string) map[string]string {
	return map[string]string{
		"store": storeProgram(m.StoreVersion).Path(), "store_config": string(m.renderStore()), "stored": name,
		"environment": m.Settings.EnvironmentFile,
	}
}

// StoreDirs returns the directories of the program: that of the versions, and that of the wanted one.
func (m Member) StoreDirs() []string {
	dirs := []string{storeRoot}
	for _, a := range m.Artifacts() {
		dirs = append(dirs, path.Dir(a.Path()))
	}
	return dirs
}

// LeftPrograms returns the installed versions of the program that m does not need.
func (m Member) LeftPrograms(facts host.Facts) []string {
	return slices.DeleteFunc(slices.Clone(facts.Dirs[storeRoot]), func(version string) bool {
		return len(m.Artifacts()) > 0 && version == m.StoreVersion
	})
}

// RemovePrograms returns the commands that remove the versions of the program that m does not need.
func (m Member) RemovePrograms() host.Script {
	keep := ""
	if len(m.Artifacts()) > 0 {
		keep = m.StoreVersion
	}
	return "keep=" + host.Words(keep) + "\nfor program in " + host.Words(storeRoot) + `/*; do
  [ "${program##*/}" = "$keep" ] || rm -rf -- "$program"
done
rmdir ` + host.Words(storeRoot, path.Dir(storeRoot)) + " 2>/dev/null || true\n" +
		host.Flush(storeRoot, path.Dir(storeRoot))
}

// renderStore renders the configuration of the program.
func (m Member) renderStore() []byte {
	s := *m.Settings.S3
	s.Recipients = slices.Sorted(slices.Values(s.Recipients))
	text, err := json.MarshalIndent(storeFile{S3: s, Cluster: m.ClusterID, ClusterName: m.ClusterName}, "", "  ")
	if err != nil {
		panic("snapshot: encode the configuration of the store: " + err.Error()) // strings and numbers
	}
	return append(text, '\n')
}

// storeIn reads the configuration from a machine. It returns nil if there is none.
func storeIn(content string) *S3 {
	var file storeFile
	if json.Unmarshal([]byte(content), &file) != nil || file.Validate() != nil {
		return nil
	}
	return &file.S3
}

var (
	storedForm = regexp.MustCompile(`^(\d{8}T\d{6}Z)-[a-z0-9][a-z0-9.-]{0,99}\.db$`)
	bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	regionForm = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
)

// Validate checks what the arguments are together.
func (s S3) Validate() error {
	for _, check := range []error{
		ValidateEndpoint(s.Endpoint), ValidateBucket(s.Bucket), ValidatePrefix(s.Prefix), ValidateRegion(s.Region),
		ValidateCredentialsFile(s.CredentialsFile),
	} {
		if check != nil {
			return check
		}
	}
	for _, recipient := range s.Recipients {
		if err := ValidateRecipient(recipient); err != nil {
			return err
		}
	}
	if strings.HasPrefix(s.Endpoint, "http:") && len(s.Recipients) == 0 {
		return errors.New("endpoint is http and recipients are not set: whoever is on the network could read the " +
			"snapshots: use https, or encrypt them for recipients")
	}
	return nil
}

// ValidateEndpoint accepts the URL of a server, without a path.
func ValidateEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil ||
		u.Path+u.RawQuery+u.Fragment != "" {
		return fmt.Errorf("endpoint %q is not the URL of an S3 server, such as \"https://s3.eu-central-1.amazonaws.com\" or "+
			"\"https://10.0.0.5:9000\"", endpoint)
	}
	return nil
}

// ValidateBucket accepts a name that S3 allows for a bucket.
func ValidateBucket(bucket string) error {
	if !bucketForm.MatchString(bucket) {
		return fmt.Errorf("%q is not the name of a bucket: use 3 to 63 lower-case letters, digits, dots and dashes", bucket)
	}
	return nil
}

// StoredAt returns when the snapshot with a name in a bucket was saved. Names are those of
// kube-snapshot-store list.
func StoredAt(name string) (time.Time, error) {
	parts := storedForm.FindStringSubmatch(name)
	if parts == nil {
		return time.Time{}, fmt.Errorf("%q is not the name of a snapshot, such as \"20260102T030405Z-cp1.db\"", name)
	}
	return time.Parse("20060102T150405Z", parts[1])
}

// ValidatePrefix accepts a path of plain words.
func ValidatePrefix(prefix string) error {
	if prefix != "" && (!layout.PlainPath.MatchString(prefix) || path.Clean(prefix) != prefix || path.IsAbs(prefix) ||
		strings.HasPrefix(prefix, "..")) {
		return fmt.Errorf("prefix %q is not a path such as \"etcd/prod\": use letters, digits and . _ - without a slash at "+
			"its beginning and end", prefix)
	}
	return nil
}

// ValidateRegion accepts the name of a region.
func ValidateRegion(region string) error {
	if region != "" && !regionForm.MatchString(region) {
		return fmt.Errorf("%q is not the name of a region, such as \"eu-central-1\"", region)
	}
	return nil
}

// ValidateCredentialsFile accepts an absolute path.
func ValidateCredentialsFile(file string) error {
	if !path.IsAbs(file) || path.Clean(file) != file || file == "/" || !layout.PlainPath.MatchString(file) {
		return fmt.Errorf("credentials file %q is not a clean absolute path of letters, digits and . _ - /", file)
	}
	return nil
}

// ValidateRecipient accepts a public key of age. The error does not show it: it may be an identity.
func ValidateRecipient(text string) error {
	if recipients, err := age.ParseRecipients(strings.NewReader(text)); err != nil || len(recipients) != 1 ||
		strings.TrimSpace(text) != text {
		return errors.New("a recipient is not a public key of age (age1…)")
	}
	return nil
}
