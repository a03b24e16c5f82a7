package etcd

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// misfits describes why restored data does not belong to the cluster of a bundle: the API
// servers could not read its objects, or its workloads trust another certificate. Data
// that says nothing about either is accepted, and so is a certificate that a plugin of KMS has encrypted.
func misfits(b *pki.Bundle, data machine.Staged, otherCA bool) []string {
	var words []string
	add := func(err error) {
		if err == nil {
			return
		}
		text := err.Error()
		if step := b.StepToRead(err); step != "" {
			text += ": for API servers to read this data, first " + step
		}
		if !slices.Contains(words, text) {
			words = append(words, text)
		}
	}
	for _, resource := range data.Unencrypted {
		add(b.Reads(resource, nil))
	}
	for _, value := range slices.Concat(data.Heads, data.Samples, [][]byte{data.CA}) {
		add(b.Decrypts(value))
	}
	if otherCA {
		return words
	}
	ca, _ := b.Open(data.CA) // or it is in words
	roots, known := certificatesIn(ca), certificatesIn([]byte(b.Known(pki.Kubernetes)))
	if len(roots) > 0 && !shareOne(roots, known) {
		words = append(words, fmt.Sprintf("the data is of a cluster whose root certificate %q is not in the bundle: after a "+
			"rotation, or for another reason to use it, set accept_other_ca = true in restore", roots[0].Subject.CommonName))
	}
	return words
}

// emptiness describes that a snapshot has nothing, such as that of a cluster that was made by accident. A survivor may
// have nothing: there is no other data of its cluster.
func emptiness(r *machine.Restore, data machine.Staged) []string {
	if r.Member != "" || data.Revision > 0 {
		return nil
	}
	return []string{"the snapshot is empty: nothing was ever written to its cluster"}
}

// certificatesIn returns the certificates in PEM within other data.
func certificatesIn(data []byte) []*x509.Certificate {
	var out []*x509.Certificate
	for {
		begin := bytes.Index(data, []byte("-----BEGIN CERTIFICATE-----"))
		if begin < 0 {
			return out
		}
		block, rest := pem.Decode(data[begin:])
		if block == nil {
			return out
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			out = append(out, c)
		}
		data = rest
	}
}

func shareOne(a, b []*x509.Certificate) bool {
	return slices.ContainsFunc(a, func(c *x509.Certificate) bool { return slices.ContainsFunc(b, c.Equal) })
}
