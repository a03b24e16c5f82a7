package volume

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// State is what a volume is to its cluster.
type State string

// The states of a volume.
const (
	Member   State = "member"   // the member on the machine in the identity uses it, or has not been stopped properly
	Released State = "released" // that machine has stopped the member and unmounted the volume
	Removed  State = "removed"  // the member left the cluster: its data never votes again
)

// Identity is kube-etcd-member.json on a volume: whose data it has, and which machine mounted it last. It is written
// before etcd starts there.
type Identity struct {
	ClusterID   string    `json:"cluster_id"` // of the bundle
	ClusterName string    `json:"cluster_name"`
	Name        string    `json:"name"`
	EtcdCluster string    `json:"etcd_cluster_id"` // hex; "" while there is no member yet
	MemberID    string    `json:"member_id"`       // hex; "" while there is no member yet
	Restored    string    `json:"restored"`        // as in member.json
	MachineID   string    `json:"machine_id"`      // of the machine that mounted it last
	From        string    `json:"from_machine_id"` // of the machine that had mounted it before; "" if there was none
	MountedAt   time.Time `json:"mounted_at"`
	State       State     `json:"state"`
}

func (i Identity) text() string {
	text, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		panic("volume: encode an identity: " + err.Error()) // strings and a time
	}
	return string(text) + "\n"
}

// Content returns the content of the file.
func (i Identity) Content() []byte { return []byte(i.text()) }

// Same reports whether both say the same, whenever they were written.
func (i Identity) Same(other Identity) bool {
	i.MountedAt = other.MountedAt
	return i == other
}

// Has reports whether the volume has had a member.
func (i Identity) Has() bool { return i.MemberID != "" && i.State != Removed }

var (
	clusterForm = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	nameForm    = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$`) // of a member
	labelForm   = regexp.MustCompile(`^[A-Za-z0-9._ -]{0,253}$`)
	idForm      = regexp.MustCompile(`^[0-9a-f]{0,16}$`)
	restoreForm = regexp.MustCompile(`^[A-Za-z0-9._:-]{0,100}$`)
	machineForm = regexp.MustCompile(`^[0-9a-f]{32}$`)
	formerForm  = regexp.MustCompile(`^([0-9a-f]{32})?$`)
)

const longestIdentity = 16 << 10

// ReadIdentity parses an identity. It accepts known forms only.
func ReadIdentity(text string) (*Identity, error) {
	if len(text) > longestIdentity {
		return nil, fmt.Errorf("its size is %d bytes", len(text))
	}
	var i Identity
	if json.Unmarshal([]byte(text), &i) != nil {
		return nil, errors.New("it is not valid JSON of an identity")
	}
	for _, field := range []struct {
		name, value string
		form        *regexp.Regexp
	}{
		{"cluster_id", i.ClusterID, clusterForm},
		{"cluster_name", i.ClusterName, labelForm},
		{"name", i.Name, nameForm},
		{"etcd_cluster_id", i.EtcdCluster, idForm},
		{"member_id", i.MemberID, idForm},
		{"restored", i.Restored, restoreForm},
		{"machine_id", i.MachineID, machineForm},
		{"from_machine_id", i.From, formerForm},
	} {
		if !field.form.MatchString(field.value) {
			return nil, fmt.Errorf("%s is %s", field.name, problem.Quote(field.value))
		}
	}
	if i.State != Member && i.State != Released && i.State != Removed {
		return nil, fmt.Errorf("state is %s", problem.Quote(string(i.State)))
	}
	return &i, nil
}
