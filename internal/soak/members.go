package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// keyPrefix is the prefix of the writer's keys.
const keyPrefix = "/soak/"

// put writes another key, which every member must have from then on.
func (s *sweep) put(ctx context.Context) error {
	if s.size == 0 {
		return nil
	}
	return s.putOn(ctx, s.machines(1)[0])
}

// putOn does it by the member on a machine.
func (s *sweep) putOn(ctx context.Context, m *lab.Machine) error {
	if _, err := m.Run(ctx, fmt.Sprintf("%s\netcdctl put %s%06d written >/dev/null", etcdctl, keyPrefix,
		s.keys)); err != nil {
		return err
	}
	s.keys++
	return nil
}

// members checks etcd: every machine in use has a voter that serves, there is no other member,
// and no key is lost.
func (s *sweep) members(ctx context.Context) error {
	used := s.machines(s.size)
	out, err := used[0].Run(ctx, with(map[string]string{"prefix": keyPrefix}, etcdctl+membersScript))
	if err != nil {
		return fmt.Errorf("etcd is not healthy: %w", err)
	}
	list, keys, _ := strings.Cut(out, "\n")
	if err := voters(list, used); err != nil {
		return err
	}
	for n := range s.keys {
		if key := fmt.Sprintf("%s%06d", keyPrefix, n); !slices.Contains(strings.Fields(keys), key) {
			return fmt.Errorf("key %s of %d is lost", key, s.keys)
		}
	}
	return nil
}

// voters checks a member list as etcdctl prints it.
func voters(list string, used fleet) error {
	var document struct {
		Members []struct {
			Name       string   `json:"name"`
			PeerURLs   []string `json:"peerURLs"`
			ClientURLs []string `json:"clientURLs"`
			IsLearner  bool     `json:"isLearner"`
		} `json:"members"`
	}
	if err := json.Unmarshal([]byte(list), &document); err != nil {
		return fmt.Errorf("read member list: %w", err)
	}
	var wrong []error
	var got, want []string
	for _, m := range document.Members {
		got = append(got, fmt.Sprintf("%s %v", m.Name, m.PeerURLs))
		if m.IsLearner {
			wrong = append(wrong, fmt.Errorf("%s %v is a learner", m.Name, m.PeerURLs))
		}
		if len(m.ClientURLs) == 0 {
			wrong = append(wrong, fmt.Errorf("%s %v has never started", m.Name, m.PeerURLs))
		}
	}
	for name, address := range addresses(used) {
		want = append(want, fmt.Sprintf("%s [https://%s:2380]", name, address))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		wrong = append(wrong, fmt.Errorf("the members are %q, not %q", got, want))
	}
	return errors.Join(wrong...)
}
