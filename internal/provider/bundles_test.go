package provider

import (
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestOpenedBundles checks that a text is read once, that an addition to one resource's bundle
// does not reach another resource, and that an unreadable text stays an error.
func TestOpenedBundles(t *testing.T) {
	made, err := pki.Generate(pki.Options{ClusterName: "prod", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	text, err := made.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	var opened openedBundles
	first, err := opened.open(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	first.Signed = map[string]pki.KeyPair{"apiserver": {}}
	second, err := opened.open(text, nil)
	if err != nil || second.Signed != nil || second.ClusterID != made.ClusterID || len(opened.digests) != 1 {
		t.Errorf("the same text gives %+v, %v, and %d bundles are kept", second, err, len(opened.digests))
	}
	for range 2 {
		if _, err := opened.open("{}", nil); err == nil {
			t.Error("a text that is no bundle was read")
		}
	}
}
