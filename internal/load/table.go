package load

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// String returns a table for logs.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "load %s, %.1f s: requests: %s; longest gap %s; %d of %d acknowledged writes lost; sent at most "+
		"%d ms late\n",
		r.Run, r.Took.Seconds(), r.Requests(), r.LongestGap(), len(r.Lost()), r.Acknowledged(), r.Late.Milliseconds())
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	r.writeCounts(w)
	fmt.Fprintln(w, "CLIENT\tREADS FAILED\tWRITES FAILED\tGAP\tGAP OF WRITES\tDIALLED\tDIALS REFUSED\tACKNOWLEDGED\tLOST")
	for _, c := range r.writers() {
		fmt.Fprintf(w, "%s\t%d of %d\t%d of %d\t%s\t%s\t%d\t%d\t%d\t%d\n", c.Name, c.Reads.Failed, c.Reads.Tried,
			c.Writes.Failed, c.Writes.Tried,
			c.All.Gap, c.Writes.Gap, c.Dialled, c.DialsRefused, c.Acknowledged, len(c.Lost))
	}
	fmt.Fprintln(w, "WATCH\tEVENTS\tMISSED\tGAP\tREPEATED\tOUT OF ORDER\tRESUMED\tBROKEN\tERRORS IN STREAM")
	for _, v := range r.Watches {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\n", v.Name, v.Events, len(v.Missed), v.Gap, v.Repeated,
			v.Disordered, v.Resumed, v.Broken, v.Failed)
	}
	_ = w.Flush() // a strings.Builder never fails
	for _, c := range r.writers() {
		writeErrors(&b, c.Name, c.Errors)
	}
	for _, v := range r.Watches {
		writeErrors(&b, "watch "+v.Name, v.Errors)
	}
	if r.Pressure != nil {
		fmt.Fprintln(&b, r.Pressure)
	}
	if r.Hashes != nil {
		fmt.Fprintln(&b, r.Hashes)
	}
	return b.String()
}

// writeCounts writes the counts of each kind of operation.
func (r Report) writeCounts(w io.Writer) {
	fmt.Fprintln(w, "OPERATION\tTRIED\tFAILED\tEXCUSED\tREPEATED\tREFUSED")
	row := func(name string, c Requests) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\n", name, c.Tried, c.Failed, c.Excused, c.Repeated, c.Refused)
	}
	for _, c := range r.Clients {
		row("requests of client "+c.Name, c.All)
	}
	row(string(WatchOpening), r.Openings())
	row(string(EtcdWrite), r.EtcdWrites())
}

func writeErrors(b *strings.Builder, who string, errs []ErrorCount) {
	for _, f := range errs {
		fmt.Fprintf(b, "  %s: %s\n", who, f)
	}
}
