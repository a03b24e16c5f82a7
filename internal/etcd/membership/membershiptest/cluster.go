// Package membershiptest creates views of clusters for tests.
package membershiptest

import (
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// ClusterOf creates a view from one letter per member: "L" the healthy leader, "h" a
// healthy voter, "d" a dead voter, "s" one that did not answer, "l" a learner.
func ClusterOf(letters string) membership.View {
	v := membership.View{ClusterID: 1}
	for i, letter := range letters {
		m := membership.Member{
			ID: uint64(i + 1), Name: fmt.Sprintf("cp%d", i+1), Version: "3.6.16",
			PeerURLs:   []string{fmt.Sprintf("https://10.0.0.%d:2380", i+1)},
			ClientURLs: []string{fmt.Sprintf("https://10.0.0.%d:2379", i+1)},
			Healthy:    letter != 'd' && letter != 's', Dead: letter == 'd', Learner: letter == 'l',
		}
		if letter == 'L' {
			v.Leader = m.ID
		}
		v.Members = append(v.Members, m)
	}
	return v
}
