package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/review"
)

// checkPlans checks what depends on the number and the names of the plans.
func (o options) checkPlans() error {
	if len(o.report.Plans) != 1 && (o.due || o.partOf != "") {
		return fmt.Errorf("-due and -part-of are for one plan, not %d", len(o.report.Plans))
	}
	if o.metrics != "" && slices.ContainsFunc(o.report.Plans, func(p review.NamedPlan) bool { return p.Name == "" }) {
		return errors.New("-metrics needs the name of the cluster, as in NAME=PLAN")
	}
	return nil
}

// writeMetrics replaces the file at once: a collector never reads a part of it.
func (o options) writeMetrics() error {
	file, err := os.CreateTemp(filepath.Dir(o.metrics), ".kube-review-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // after an error
	_, err = file.WriteString(review.Metrics(o.report, review.Applied(o.applied)))
	err = errors.Join(err, file.Chmod(0o644), file.Close()) // node_exporter has a user of its own
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), o.metrics)
}

func write(o options, out io.Writer) error {
	text, err := o.text()
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

func (o options) text() ([]byte, error) {
	switch {
	case o.due:
		return o.targets(), nil
	case o.format == "json":
		return review.JSON(o.report)
	case o.format == "markdown":
		return []byte(review.Markdown(o.report, o.limit)), nil
	case len(o.report.Plans) != 1:
		return nil, fmt.Errorf("the format reduced is for one plan, not %d", len(o.report.Plans))
	}
	return review.Reduce(o.report.Plans[0])
}

// targets returns the arguments of plans for what is due.
func (o options) targets() []byte {
	var b strings.Builder
	for _, group := range review.Due(o.report.Plans[0], *o.report.Policy, o.report.Now) {
		for _, address := range group {
			fmt.Fprintf(&b, "-target=%s\n", address)
		}
		b.WriteString("\n")
	}
	return []byte(b.String())
}
