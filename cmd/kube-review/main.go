// Command kube-review summarizes plans for a review: as Markdown for a comment on a pull
// request, or as JSON. See package review.
//
//	terraform plan -out=plan.bin
//	terraform show -json plan.bin | kube-review >comment.md
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
	_ "time/tzdata" // a policy names a time zone, and an image of a pipeline may have none

	"github.com/kubequorum/terraform-provider-kube/internal/review"
)

// version is set at link time by the release build.
var version = "dev"

const usage = `Usage: kube-review [flags] [PLAN]
       kube-review [flags] [NAME=]PLAN ...
       kube-review [flags] DIRECTORY

Summarizes plans for reviewers: what drifted, what an apply would do in which
order, and what stays available meanwhile. A plan is the output of "terraform
show -json", in a file or on standard input ("-", the default). Several plans,
a NAME or a DIRECTORY make one comment with a summary by cluster:

  terraform show -json plan.bin | kube-review
  kube-review berlin=berlin.json paris=paris.json
  kube-review plans/    # plans/berlin.json, plans/production/paris/tfplan.json

A cluster without a name is named after its file, below DIRECTORY. An empty
file means that planning failed. The output contains nothing that a plan marks
as sensitive.

With -policy, the plan is judged too: whether it only renews certificates whose
time has come, or only repairs drift, within the limits of the policy. What
kube-review does not understand is for a person. Apply the very file that was
judged:

  terraform show -json plan.bin | kube-review -policy policy.yaml
  [ $? = 3 ] && terraform apply plan.bin

If a person decides, renewals and repairs beside what waits need not wait too:
-due prints arguments for plans of them alone, and -part-of judges such a plan.
The guide "Drift review in pull requests" has the commands.

Exit status:
  0  the output is written, and all plans were read;
     with -policy: an apply changes nothing
  1  the output is written, but planning failed or a plan cannot be read
  2  the output is not written
  3  with -policy: every plan that changes something may be applied without a person
  4  with -policy: a person decides

Flags:
`

// options are the flags.
type options struct {
	report review.Report
	format string
	limit  int
	policy string // path

	due     bool   // print what is due instead of a comment
	partOf  string // path of the complete plan
	metrics string // path
	applied string
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, paths, err := parse(args, stdout, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case paths == nil: // -version
		return 0
	}
	if o.report.Plans, err = read(paths, stdin); err == nil {
		err = o.readPolicy()
	}
	if err == nil {
		err = o.checkPlans()
	}
	if err == nil && o.metrics != "" {
		err = o.writeMetrics()
	}
	if err == nil {
		err = write(o, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "kube-review:", err)
		return 2
	}
	for _, p := range o.report.Plans {
		if p.Err != nil {
			fmt.Fprintf(stderr, "kube-review: %s: %v\n", label(p), p.Err)
		}
	}
	if o.due {
		o.report.Policy = nil // what it prints is no verdict
	}
	return status(o.report)
}

// status is the exit status of a report that was written.
func status(r review.Report) int {
	applied, asked := false, false
	for _, v := range r.Verdicts() {
		applied = applied || v.Automatic
		asked = asked || !v.Automatic && v.Class != review.ClassNone
	}
	switch {
	case !r.Complete():
		return 1
	case asked:
		return 4
	case applied:
		return 3
	}
	return 0
}

// readPolicy reads the policy, if there is one, and the complete plan of a part. The time of the verdict is now.
func (o *options) readPolicy() error {
	o.report.Now = time.Now()
	if o.partOf != "" {
		text, err := os.ReadFile(o.partOf)
		if err != nil {
			return err
		}
		complete := review.Read("", text)
		o.report.PartOf = &complete
	}
	if o.policy == "" {
		return nil
	}
	text, err := os.ReadFile(o.policy)
	if err != nil {
		return err
	}
	policy, err := review.ParsePolicy(text)
	o.report.Policy = &policy
	return err
}

func label(p review.NamedPlan) string {
	if p.Name == "" {
		return "plan"
	}
	return p.Name
}

// parse reads the command line. The paths are nil if there is nothing to do.
func parse(args []string, stdout, stderr io.Writer) (options, []string, error) {
	var o options
	flags := flag.NewFlagSet("kube-review", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.report.Title, "title", "Control plane: plan", "`heading` of the comment")
	flags.StringVar(&o.report.Marker, "marker", "",
		"`name` in a hidden first line, <!-- kube-review: name -->, by which a pipeline finds its comment")
	flags.StringVar(&o.report.Log, "log", "", "`URL` of the pipeline's log, for a link at the end")
	flags.StringVar(&o.format, "format", "markdown",
		"output `format`: markdown, json, or reduced (one plan without secrets, which kube-review reads as a plan)")
	flags.IntVar(&o.limit, "limit", review.MaxComment,
		"maximum `length` of the comment in bytes; longer ones leave out sections, never what is destroyed")
	flags.StringVar(&o.policy, "policy", "",
		"`file` in YAML or JSON with the limits within which plans may be applied without a person; see the exit status")
	flags.BoolVar(&o.due, "due", false, "instead of a comment on one plan, print what the -policy allows although a "+
		"person decides about the rest: arguments -target for plans of it, one per line, with an empty line after each plan")
	flags.StringVar(&o.partOf, "part-of", "",
		"`file` of the complete plan, for which -due printed the targets of the plan that the -policy judges")
	flags.StringVar(&o.metrics, "metrics", "", "`file` to write with metrics in OpenMetrics text, for the textfile "+
		"collector of node_exporter or a Pushgateway; plans need names, which become the label cluster")
	flags.StringVar(&o.applied, "applied", string(review.AppliedNothing),
		"`outcome` of what was applied before, for -metrics: no, yes or failed")
	tell := flags.Bool("version", false, "print the version and exit")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return o, nil, err
	}
	if *tell {
		fmt.Fprintln(stdout, version)
		return o, nil, nil
	}
	if err := o.check(); err != nil {
		fmt.Fprintln(stderr, "kube-review:", err)
		return o, nil, err
	}
	if flags.NArg() == 0 {
		return o, []string{"-"}, nil
	}
	return o, flags.Args(), nil
}

// minLimit leaves room for the summary.
const minLimit = 4096

func (o options) check() error {
	switch {
	case !slices.Contains([]string{"markdown", "json", "reduced"}, o.format):
		return fmt.Errorf("unknown format %q: use markdown, json or reduced", o.format)
	case o.report.Marker != "" && !review.ValidMarker(o.report.Marker):
		return fmt.Errorf("invalid marker %q: use letters, digits, dots and underscores, "+
			"separated by single hyphens, slashes or spaces", o.report.Marker)
	case o.policy != "" && o.format == "reduced":
		return errors.New("a reduced plan has no verdict: use -policy with another format")
	case o.policy == "" && (o.due || o.partOf != ""):
		return errors.New("-due and -part-of need -policy")
	case o.due && o.partOf != "":
		return errors.New("-due is for a complete plan, and -part-of for a part of it")
	case !slices.Contains([]review.Applied{review.AppliedNothing, review.AppliedAll, review.ApplyFailed},
		review.Applied(o.applied)):
		return fmt.Errorf("unknown outcome %q: use no, yes or failed", o.applied)
	case o.limit < minLimit:
		return fmt.Errorf("invalid limit %d: it must be at least %d", o.limit, minLimit)
	case o.report.Log != "" && !review.ValidLog(o.report.Log):
		return fmt.Errorf("invalid URL %q: it must begin with https:// or http://", o.report.Log)
	}
	return nil
}
