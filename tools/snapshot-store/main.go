// Command kube-snapshot-store uploads snapshots of etcd to a bucket of an S3 server, encrypted with
// age, and fetches, lists and removes them. The timer of kube_etcd_member runs it on the machines.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
)

// version is set at link time by the release build.
var version = "dev"

const usage = `Usage: kube-snapshot-store -config FILE COMMAND

Commands:
  put FILE          upload a snapshot, and verify what the store has
  list [-json]      list the snapshots in the store, the newest first
  get -out FILE [-newest [-etcd ID] | -name NAME] [-identity FILE]
                    fetch a snapshot, verify it, and write it to a file. -etcd asks for
                    the newest one of the etcd cluster with that ID, if there is one. An
                    identity file of age opens an encrypted one; "-" reads it from
                    standard input
  prune             remove old snapshots, as the configuration says
  version           print the version

The configuration is the file that the provider writes: /etc/etcd/snapshot-store.json.

The exit status is 1 if a command fails, 2 if it makes no sense, and 3 if put fails because
of the file, which is damaged or no snapshot: another one may be uploaded.
`

// errUsage is a command line that makes no sense.
var errUsage = errors.New("wrong usage")

func main() {
	signal.Ignore(syscall.SIGXFSZ) // a write beyond the limit of the service fails, and says so
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintf(os.Stderr, "kube-snapshot-store: %v\n\n%s", err, usage)
	case err != nil:
		fmt.Fprintln(os.Stderr, "kube-snapshot-store:", err)
	}
	os.Exit(exitStatus(err))
}

// badSnapshot is the exit status for a badFile. The script of the timer goes on with other snapshots then.
const badSnapshot = 3

func exitStatus(err error) int {
	switch bad := (badFile{}); {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		return 2
	case errors.As(err, &bad):
		return badSnapshot
	}
	return 1
}

// run runs one command. What it did goes to out, and what it noticed to notes.
func run(ctx context.Context, args []string, in io.Reader, out, notes io.Writer) error {
	flags := newFlags("kube-snapshot-store")
	file := flags.String("config", "", "")
	if err := flags.Parse(args); err != nil || flags.NArg() == 0 {
		return fmt.Errorf("%w: no command", errUsage)
	}
	command, rest := flags.Arg(0), flags.Args()[1:]
	if command == "version" {
		_, err := fmt.Fprintln(out, version)
		return err
	}
	do, ok := map[string]func(context.Context, *store, []string, io.Reader, io.Writer) error{
		"put": runPut, "list": runList, "get": runGet, "prune": runPrune,
	}[command]
	if !ok || *file == "" {
		return fmt.Errorf("%w: want -config FILE and one of put, list, get and prune", errUsage)
	}
	c, err := readConfig(*file)
	if err != nil {
		return err
	}
	s, err := open(c, notes)
	if err != nil {
		return err
	}
	if err := s.locate(ctx); err != nil {
		return s.explain(err)
	}
	return s.explain(do(ctx, s, rest, in, out))
}

// newFlags returns a set of flags that prints nothing by itself.
func newFlags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

func runPut(ctx context.Context, s *store, args []string, _ io.Reader, out io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("%w: put needs one file", errUsage)
	}
	m, err := s.put(ctx, args[0])
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s is in the bucket %s: %d bytes, SHA-256 %s\n", m.Snapshot, s.Bucket, m.Size, m.SHA256)
	return err
}

func runList(ctx context.Context, s *store, args []string, _ io.Reader, out io.Writer) error {
	flags := newFlags("list")
	asJSON := flags.Bool("json", false, "")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return fmt.Errorf("%w: list knows only -json", errUsage)
	}
	all, err := s.list(ctx)
	if err != nil {
		return err
	}
	if *asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(all)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SNAPSHOT\tBYTES\tSTATE")
	for _, l := range all {
		fmt.Fprintf(table, "%s\t%d\t%s\n", l.Snapshot, l.Size, l.State)
	}
	return table.Flush()
}

func runGet(ctx context.Context, s *store, args []string, in io.Reader, out io.Writer) error {
	flags := newFlags("get")
	newest, name := flags.Bool("newest", false, ""), flags.String("name", "", "")
	identity, to := flags.String("identity", "", ""), flags.String("out", "", "")
	etcdCluster := flags.String("etcd", "", "")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || *to == "" || *newest == (*name != "") {
		return fmt.Errorf("%w: get needs -out FILE, and either -newest or -name NAME", errUsage)
	}
	if *etcdCluster != "" && (!*newest || !etcdIDForm.MatchString(*etcdCluster)) {
		return fmt.Errorf("%w: -etcd is for -newest, and needs the ID of an etcd cluster in hex", errUsage)
	}
	s.etcdCluster = *etcdCluster
	identities, err := readIdentities(*identity, in)
	if err != nil {
		return err
	}
	m, err := s.get(ctx, *name, *to, identities)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s is in %s: %d bytes, SHA-256 %s\n", m.Snapshot, *to, m.Size, m.SHA256)
	return err
}

func runPrune(ctx context.Context, s *store, args []string, _ io.Reader, out io.Writer) error {
	if len(args) > 0 {
		return fmt.Errorf("%w: prune has no arguments", errUsage)
	}
	r, err := s.prune(ctx)
	if err != nil {
		return err
	}
	note := ""
	if r.Unread && r.Removed > 0 {
		note = "the bucket's versioning cannot be read (s3:GetBucketVersioning): removed versions may stay\n"
	}
	if r.Former > 0 {
		note += fmt.Sprintf("%d more snapshots are kept: they are the newest ones of former etcd clusters\n", r.Former)
	}
	_, err = fmt.Fprintf(out, "%d snapshots are kept, %d objects were removed, %d are locked\n%s", r.Kept, r.Removed,
		r.Locked, note)
	return err
}
