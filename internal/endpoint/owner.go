package endpoint

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

var (
	//go:embed owner.sh
	ownerScript host.Script
	//go:embed claim.sh
	claimScript host.Script
)

// OwnerFunctions returns shell functions that determine whose endpoint a machine has. See owner.sh
// for the variables that they need.
func OwnerFunctions() host.Script { return ownerScript }

// ClaimScript returns a script that writes the record of a replica ($record), unless the machine has
// another endpoint. It needs OwnerFunctions.
func ClaimScript() host.Script { return claimScript }

// Owner is the endpoint and the replica that the record on a replica's machine names.
type Owner struct {
	ClusterID string `json:"cluster_id"`
	Address   string `json:"address"`
	Name      string `json:"name"`
}

// unreadable is the owner in a record that cannot be read.
var unreadable = Owner{Address: "of an unreadable record"}

var clusterForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// ReadOwner parses a record. A record in another form belongs to an unknown endpoint.
func ReadOwner(text string) Owner {
	var o Owner
	if text == "" {
		return o
	}
	err := json.Unmarshal([]byte(text), &o)
	if _, bad := netip.ParseAddr(o.Address); err != nil || bad != nil || !clusterForm.MatchString(o.ClusterID) {
		return unreadable
	}
	return o
}

// Record returns the record of a replica. owner.sh reads it too, so each field is on its own line.
func (r Registration) Record(replica string) string {
	text, _ := json.MarshalIndent(Owner{r.ClusterID, r.Address, replica}, "", "  ") // strings always encode
	return string(text) + "\n"
}

// Exists reports whether the machine has a record.
func (o Owner) Exists() bool { return o.Address != "" }

// Other reports whether the machine belongs to another endpoint.
func (o Owner) Other(r Registration) bool {
	return o.Exists() && (o.ClusterID != r.ClusterID || o.Address != r.Address)
}

// String describes the endpoint of the record.
func (o Owner) String() string {
	return "endpoint " + problem.Line(o.Address) + " of the cluster with the id " + problem.Quote(o.ClusterID)
}

// Answer is what a script says about the owner of the machine.
type Answer string

// The answers of scripts. The third one, of a machine with another endpoint, is ErrOther.
const (
	Owned  Answer = "ours"
	Absent Answer = "absent" // nothing of the endpoint is there, or another replica of it
)

// ErrOther means that a machine belongs to another endpoint, and was not changed.
var ErrOther = errors.New("its machine belongs to another endpoint")

// RunOwned runs a script that ends with one of the answers, or with unless_other of OwnerFunctions. It
// returns ErrOther if the machine has another endpoint.
func RunOwned(ctx context.Context, h *host.Host, c host.Command) (Answer, error) {
	output, err := h.Run(ctx, c)
	if err != nil {
		return "", err
	}
	answer, recorded, _ := strings.Cut(strings.TrimSpace(output), "\n")
	switch answer {
	case "other": // the record follows
		return "", fmt.Errorf("%w: %s", ErrOther, ReadOwner(recorded))
	case string(Owned), string(Absent):
		return Answer(answer), nil
	}
	return "", fmt.Errorf("unexpected answer %s", problem.Quote(answer))
}
