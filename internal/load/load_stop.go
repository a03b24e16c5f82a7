package load

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// readBackTimeout limits the search, at the end, for a server that answers.
	readBackTimeout = time.Minute
	// cleanTimeout limits the cleanup. It is enough to delete about 15 000 ConfigMaps.
	cleanTimeout = time.Minute
	// catchUpTimeout is how long watches may lag behind the last write.
	catchUpTimeout = 10 * time.Second
)

// Stop ends the clients and reads every acknowledged key back. If it returns an error, the
// report is complete except for lost writes. It is called once.
func (l *Load) Stop(ctx context.Context) (Report, error) {
	defer l.close()
	stopped := time.Since(l.begun)
	l.halt()
	l.sending.Wait()
	l.waitForWatches(ctx)
	l.end()
	report := l.report(stopped)
	err := l.readBack(ctx, &report)
	l.clean(context.WithoutCancel(ctx))
	if err != nil {
		return report, fmt.Errorf("stop load: %w", err)
	}
	return report, nil
}

// end stops writers and watches and waits for them.
func (l *Load) end() {
	l.halt()
	l.cut()
	l.sending.Wait()
	l.watching.Wait()
}

// waitForWatches gives the watches time to receive the last writes.
func (l *Load) waitForWatches(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	written := l.acknowledged()
	for _, w := range l.watches {
		_ = wait.PollUntilContextCancel(ctx, retryInterval, true, func(context.Context) (bool, error) {
			return len(w.log.missed(written)) == 0, nil
		})
	}
}

// acknowledged returns the ConfigMaps that must exist.
func (l *Load) acknowledged() []string {
	var names []string
	for _, c := range l.clients {
		names = append(names, c.ledger.acknowledged()...)
	}
	return names
}

// report returns what the clients have observed. They stopped sending at stopped.
func (l *Load) report(stopped time.Duration) Report {
	report := Report{Run: l.run, Took: stopped}
	for _, c := range l.clients {
		report.Clients = append(report.Clients, c.ledger.report(c.name, &c.via.dials, stopped))
		report.Late = max(report.Late, c.late)
	}
	written := l.acknowledged()
	for _, w := range l.watches {
		report.Watches = append(report.Watches, w.log.report(w.name, written, stopped))
	}
	if l.etcd != nil {
		direct := l.etcd.ledger.report("etcd", &l.etcd.client.dials, stopped)
		report.Etcd = &direct
	}
	report.Pressure = l.pressure.pressure(report.LongestGap())
	return report
}

// readBack completes the report with the data that exists now.
func (l *Load) readBack(ctx context.Context, report *Report) error {
	ctx, cancel := context.WithTimeout(ctx, readBackTimeout)
	defer cancel()
	if l.admin != nil {
		there, err := l.api.names(ctx, l.admin)
		if err != nil {
			return err
		}
		for i, c := range l.clients {
			report.Clients[i].Lost = without(c.ledger.acknowledged(), there)
		}
	}
	if l.etcd == nil {
		return nil
	}
	lost, err := l.etcd.lost(ctx)
	if err != nil {
		return err
	}
	report.Etcd.Lost = lost
	hashes, err := l.etcd.members.hashes(ctx)
	report.Hashes = &hashes
	return err
}

// Lost returns the acknowledged writes that cannot be read back. The clients continue
// meanwhile.
func (l *Load) Lost(ctx context.Context) (lost []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readBackTimeout)
	defer cancel()
	if l.admin != nil {
		written := l.acknowledged()
		there, err := l.api.names(ctx, l.admin)
		if err != nil {
			return nil, err
		}
		lost = without(written, there)
	}
	if l.etcd == nil {
		return lost, nil
	}
	direct, err := l.etcd.lost(ctx)
	return append(lost, direct...), err
}

// clean removes what the run wrote, so that runs do not accumulate. It is best effort: nothing
// depends on it.
func (l *Load) clean(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	if l.admin != nil {
		_ = l.api.clean(ctx, l.admin)
	}
	if l.etcd != nil {
		_ = l.etcd.clean(ctx)
	}
}

func (l *Load) close() {
	for _, c := range l.clients {
		c.via.transport.CloseIdleConnections()
	}
	for _, w := range l.watches {
		w.via.transport.CloseIdleConnections()
	}
	if l.etcd != nil {
		l.etcd.client.close()
		l.etcd.members.close()
	}
}
