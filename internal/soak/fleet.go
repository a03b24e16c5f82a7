package soak

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// fleet is a set of machines that are observed without the provider.
type fleet []*lab.Machine

// controlPlane returns the first n machines for control planes, whatever else earlier scenarios have added to the lab
// before some of them.
func (f fleet) controlPlane(n int) fleet {
	var all fleet
	for i := range n {
		for _, m := range f {
			if m.Name == fmt.Sprintf("cp%d", i+1) {
				all = append(all, m)
			}
		}
	}
	return all
}

// controlPlane returns the first n machines of the lab that are for control planes.
func (e *Env) controlPlane(n int) fleet { return fleet(e.Lab.Machines()).controlPlane(n) }

// variable returns the addresses by name, as the value of the variable "machines".
func (f fleet) variable() map[string]string {
	all := map[string]string{}
	for _, m := range f {
		all[m.Name] = m.Address.String()
	}
	return all
}

// each runs a script on all machines in parallel and returns the output of each.
func (f fleet) each(ctx context.Context, script string) (map[string]string, error) {
	var mu sync.Mutex
	printed := map[string]string{}
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range f {
		group.Go(func() error {
			out, err := m.Run(ctx, script)
			mu.Lock()
			defer mu.Unlock()
			printed[m.Name] = out
			return err
		})
	}
	return printed, group.Wait()
}

func (f fleet) fingerprints(ctx context.Context) (map[string][]string, error) {
	var mu sync.Mutex
	all := map[string][]string{}
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range f {
		group.Go(func() error {
			lines, err := m.Fingerprint(ctx)
			mu.Lock()
			defer mu.Unlock()
			all[m.Name] = lines
			return err
		})
	}
	return all, group.Wait()
}

// leftovers returns what is left over on machines that are in use.
func (f fleet) leftovers(ctx context.Context) ([]string, error) {
	printed, err := f.each(ctx, leftoversScript)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, m := range f {
		for file := range strings.Lines(printed[m.Name]) {
			all = append(all, m.Name+" has "+strings.TrimSpace(file))
		}
	}
	return all, nil
}

// differences returns the differences between unused machines and their bare state.
func (f fleet) differences(ctx context.Context, bare map[string][]string) ([]string, error) {
	now, err := f.fingerprints(ctx)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, m := range f {
		for _, difference := range lab.Differences(bare[m.Name], now[m.Name]) {
			all = append(all, m.Name+" is not bare, "+difference)
		}
	}
	return all, nil
}

// state describes the machines for the log of a failure, so it never fails.
func (f fleet) state(ctx context.Context) string {
	printed, err := f.each(ctx, stateScript)
	var b strings.Builder
	for _, m := range f {
		fmt.Fprintf(&b, "---- %s\n%s", m.Name, printed[m.Name])
	}
	if err != nil {
		fmt.Fprintf(&b, "---- not all could be asked: %v\n", err)
	}
	return b.String()
}
