// Command plots draws what make bench and make soak have measured, as SVG, for the
// documentation:
//
//	SOAK_OUT=soak.json make soak; BENCH_OUT=bench.json make bench
//	cd tools/plots && go run . -soak ../../soak.json -bench ../../bench.json -out ../../images
//
// and what the panels of the dashboards showed in TestMonitoring (KUBE_TEST_PANELS):
//
//	cd tools/plots && go run . -panels ../../panels.json -out ../../images
//
// It draws a figure for each row that it knows and that is in the file, and lists
// what it has written.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
)

// figures are the rows of a soak that are drawn, and the names of their files.
var figures = []struct{ row, file, title string }{
	{"under load: a flag of the API servers", "flag-change.svg", "A flag of the API servers is changed"},
	{"under load: rotation of everything: the next issues", "rotation.svg", "All authorities and keys are rotated: the next ones issue"},
	{"upgrade: ", "upgrade.svg", "etcd and Kubernetes are upgraded by a minor version"},
	{"endpoint external: a machine loses its power", "endpoint-external.svg", "external: a machine is killed"},
	{"endpoint external with hooks: a machine loses its power", "endpoint-external-hooks.svg", "external with hooks: a machine is killed"},
	{"endpoint dns: a machine loses its power", "endpoint-dns.svg", "dns: a machine is killed"},
	{"endpoint bgp: a machine loses its power", "endpoint-bgp.svg", "bgp: a machine is killed"},
	{"endpoint kube_vip: a machine loses its power", "endpoint-kube-vip.svg", "kube_vip: the machine with the address is killed"},
	{"endpoint kube_vip by BGP: a machine loses its power", "endpoint-kube-vip-bgp.svg", "kube_vip by BGP: a machine is killed"},
	{"endpoint haproxy: a machine loses its power", "endpoint-haproxy.svg", "haproxy: the machine with the address is killed"},
	{"dead machine", "dead-machine.svg", "The machine that holds the virtual IP and leads etcd is killed"},
}

func main() {
	log.SetFlags(0)
	soak := flag.String("soak", "", "JSON `file` of make soak (SOAK_OUT)")
	bench := flag.String("bench", "", "JSON `file` of make bench (BENCH_OUT)")
	panels := flag.String("panels", "", "JSON `file` of TestMonitoring (KUBE_TEST_PANELS)")
	out := flag.String("out", ".", "`directory` to write to")
	flag.Parse()
	if err := errors.Join(os.MkdirAll(*out, 0o755), drawSoak(*soak, *out), drawBench(*bench, *out),
		drawRecovery(*bench, *out), drawDashboards(*panels, *out)); err != nil {
		log.Fatal("plots: ", err)
	}
}

// read reads the results in a file of a soak or a benchmark; none for no file. Older files are the
// list of results alone, without the commit and the date.
func read[T any](file string) ([]T, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var run struct{ Results []T }
	into := any(&run)
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		into = &run.Results
	}
	if err := json.Unmarshal(text, into); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return run.Results, nil
}

func save(figure interface{ Save(string) error }, out, file string) error {
	path := filepath.Join(out, file)
	if err := figure.Save(path); err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	fmt.Println(path)
	return nil
}
