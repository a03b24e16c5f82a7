package controlplane

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// recordPath says whose replica a machine holds and which certificates were
// issued for it.
const recordPath = kubernetesDir + "/replica.json"

// record is written after every file it speaks of. It is the proof that a
// certificate and a key on the machine belong together: a write cut off
// between the two leaves a pair that the record does not know, which is then
// issued anew. It holds digests only.
type record struct {
	ClusterID   string            `json:"cluster_id"`
	ClusterName string            `json:"cluster_name"`
	Name        string            `json:"name"`
	Issued      map[string]string `json:"issued"` // path → SHA-256, of certificates, keys and kubeconfigs
}

// readRecord reads a machine's record. None at all is the zero value; one that
// cannot be read is an error, since it may be another cluster's.
func readRecord(text string) (record, error) {
	var r record
	if text == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return record{}, fmt.Errorf("read %s: %w", recordPath, err)
	}
	return r, nil
}

func (r record) file() host.File {
	// A record is strings and a map of strings: it always encodes.
	text, _ := json.MarshalIndent(r, "", "  ")
	return host.File{Path: recordPath, Content: append(text, '\n'), Mode: secretMode, Owner: "root", Group: "root"}
}

// readDigests reads lines of "digest  path", as sha256sum writes them.
func readDigests(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		digest, path, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if ok {
			out[path] = digest
		}
	}
	return out
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
