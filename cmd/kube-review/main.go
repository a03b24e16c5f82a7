// Command kube-review summarizes a plan for a review, as Markdown for a comment on a pull
// request. See package review.
//
//	terraform plan -out=plan.bin
//	terraform show -json plan.bin | kube-review >comment.md
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/kubequorum/terraform-provider-kube/internal/review"
)

func main() {
	title := flag.String("title", "Control plane: plan", "heading of the comment")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), `Usage: kube-review [-title TEXT] [PLAN.json]

Reads a plan as "terraform show -json" prints it, from the file or from standard
input, and writes Markdown to standard output. Nothing that the plan marks
sensitive is in it. The exit status is 0 unless the plan cannot be read.
`)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *title, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kube-review:", err)
		os.Exit(1)
	}
}

func run(file, title string, in io.Reader, out io.Writer) error {
	if file != "" && file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return err
		}
		defer opened.Close()
		in = opened
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	plan, err := review.Parse(text)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, review.Render(plan, title))
	return err
}
