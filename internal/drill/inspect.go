package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const (
	// poll is the time between two questions whether the API server is ready.
	poll = 200 * time.Millisecond
	// statusInterval is the number of questions after which the machine is asked what is wrong.
	statusInterval = 25
	// readyTime limits the time until the API server is ready; large databases get more.
	readyTime = 5 * time.Minute
	// readRate is the minimum number of bytes of its database that the API server reads in a second.
	readRate = 4 << 20
)

// undecryptable is in what the API server logs of data that none of its keys decrypts (k8s.io/apiserver's etcd3
// store). It tries again for ever.
const undecryptable = "unable to transform key"

// servingLimit limits the time until the API server is ready on a database of a size in bytes.
func servingLimit(size int64) time.Duration {
	return readyTime + time.Duration(size/readRate)*time.Second
}

// awaitServing waits until the API server is ready.
func (s Spec) awaitServing(ctx context.Context, at place, size int64, api client.Survey) error {
	end := time.Now().Add(servingLimit(size))
	for asked := 1; ; asked++ {
		health := api.Health(ctx)
		if health == client.Healthy {
			return nil
		}
		if late := time.Now().After(end); late || asked%statusInterval == 0 {
			active, logged := s.status(ctx, at)
			switch {
			case !active:
				return fmt.Errorf("the API server has ended: %s", logged)
			case strings.Contains(logged, undecryptable):
				return fmt.Errorf("the API server cannot read the snapshot with its present keys: %s", logged)
			case late:
				return fmt.Errorf("the API server %s\n%s", health, logged)
			}
		}
		if err := wait.Pause(ctx, poll); err != nil {
			return err
		}
	}
}

// inspect reads what the API server of the drill serves, and compares it with the live cluster.
func (s Spec) inspect(ctx context.Context, at place, restored client.Survey, r *snapshot.Drill) error {
	problem.Progress(ctx, "restore drill on %s: counting objects, and reading every Secret", s.label())
	resources, err := restored.Resources()
	if err != nil {
		return err
	}
	if err := readSecrets(ctx, restored, resources); err != nil {
		return err
	}
	saved, unread, err := count(ctx, restored.Count, resources, r.Revision)
	if err != nil {
		return err
	}
	for name, c := range saved {
		r.Objects[name] = c.Objects
	}
	s.leaveOut(ctx, unread, "this API server, which reaches no webhook", r)
	if r.Saved == 0 {
		last, err := restored.LastRenewal(ctx, r.Revision)
		if err != nil {
			return err
		}
		setSaved(r, last)
	}
	return s.compare(ctx, at, restored, counted(resources, saved), r)
}

// readSecrets lets the API server decrypt every Secret with the keys that it was started with.
func readSecrets(ctx context.Context, restored client.Survey, resources []client.Resource) error {
	for _, resource := range resources {
		if resource.Name != "secrets" {
			continue
		}
		if _, err := restored.ReadAll(ctx, resource); err != nil {
			return fmt.Errorf("the API server cannot read the Secrets of the snapshot with its present keys: %w", err)
		}
		return nil
	}
	return errors.New("the API server of the drill serves no Secrets")
}

// counter counts the objects of a resource at a revision: see client.Survey.Count.
type counter func(ctx context.Context, resource client.Resource, revision int64) (client.Count, error)

// count counts the objects of resources by name. unread are the names of those whose objects only a conversion webhook
// can read: it runs in the live cluster, and perhaps not even there.
func count(
	ctx context.Context, counts counter, resources []client.Resource, revision int64,
) (all map[string]client.Count, unread []string, err error) {
	all = map[string]client.Count{}
	for _, resource := range resources {
		c, err := counts(ctx, resource, revision)
		switch {
		case errors.Is(err, client.ErrConversion):
			unread = append(unread, resource.Name)
		case err != nil:
			return nil, nil, err
		default:
			all[resource.Name] = c
		}
	}
	return all, unread, nil
}

// counted returns the resources that were counted.
func counted(resources []client.Resource, counts map[string]client.Count) []client.Resource {
	return slices.DeleteFunc(slices.Clone(resources), func(r client.Resource) bool {
		_, is := counts[r.Name]
		return !is
	})
}

// leaveOut records the resources that an API server could not count, which fails no drill, and says why.
func (s Spec) leaveOut(ctx context.Context, unread []string, server string, r *snapshot.Drill) {
	if len(unread) == 0 {
		return
	}
	r.Uncounted = append(r.Uncounted, unread...)
	slices.Sort(r.Uncounted)
	problem.Progress(ctx, "restore drill on %s: not counted by %s, because only a conversion webhook reads what is "+
		"stored of them: %s", s.label(), server, strings.Join(unread, ", "))
}

// compare compares the objects with those of the live cluster, and lets the drill's API server verify a
// token that the live one issues. If no API server answers on the machine, there is nothing to compare with,
// and the result says so.
func (s Spec) compare(
	ctx context.Context, at place, restored client.Survey, resources []client.Resource, r *snapshot.Drill,
) error {
	replica, err := at.api.live(s.Host.Address())
	if err != nil {
		return err
	}
	replica.Bundle = s.Bundle
	serving := client.New(s.Host, replica)
	live, err := serving.Survey()
	if err == nil {
		defer live.Close()
		var ready bool
		if ready, err = serving.Serves(ctx); err == nil && !ready {
			err = errors.New("it is not ready")
		}
	}
	if err != nil {
		problem.Progress(ctx, "restore drill on %s: not compared, because the live API server there cannot be asked: %s",
			s.label(), problem.Line(err.Error()))
		return nil
	}
	counts, unread, err := count(ctx, live.Count, resources, 0)
	if err != nil {
		return fmt.Errorf("ask the live API server: %w", err)
	}
	s.leaveOut(ctx, unread, "the live API server, whose webhook does not answer", r)
	if restoredSince(r.Revision, r.Saved, counts) {
		problem.Progress(ctx, "restore drill on %s: not compared, because the cluster was restored after this snapshot was "+
			"saved, and how much was written since is not known", s.label())
		return verifyTokens(ctx, restored, live, r)
	}
	if difference := differences(r.Objects, r.Revision, counts); difference != "" {
		return errors.New(difference)
	}
	r.Compared = true
	return verifyTokens(ctx, restored, live, r)
}

// verifyTokens checks that the restored cluster would accept the tokens of the live one: its API server
// has the same public keys, and accepts a token of an account that both have.
func verifyTokens(ctx context.Context, restored, live client.Survey, r *snapshot.Drill) error {
	accepted, err := restored.Keys(ctx)
	if err != nil {
		return err
	}
	issued, err := live.Keys(ctx)
	if err != nil {
		return fmt.Errorf("ask the live API server: %w", err)
	}
	if missing := missingKeys(accepted, issued); len(missing) > 0 {
		return fmt.Errorf("tokens of service accounts would not be accepted: %d public keys of the live API server are not "+
			"on this machine", len(missing))
	}
	account, err := common(ctx, restored, live)
	if err != nil || account.Name == "" {
		return err
	}
	token, err := live.IssueToken(ctx, account)
	if err != nil {
		return fmt.Errorf("ask the live API server: %w", err)
	}
	if err := restored.AcceptsToken(ctx, token, account); err != nil {
		return fmt.Errorf("tokens of service accounts would not be accepted: %w", err)
	}
	r.Tokens = true
	return nil
}

// common returns a service account that the snapshot and the live cluster have. Its name is empty if there
// is none.
func common(ctx context.Context, restored, live client.Survey) (client.Account, error) {
	saved, err := restored.Accounts(ctx)
	if err != nil {
		return client.Account{}, err
	}
	now, err := live.Accounts(ctx)
	if err != nil {
		return client.Account{}, fmt.Errorf("ask the live API server: %w", err)
	}
	for _, account := range saved {
		for _, other := range now {
			if account == other {
				return account, nil
			}
		}
	}
	return client.Account{}, nil
}
