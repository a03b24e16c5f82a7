package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"filippo.io/age"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/secretscan"
)

// sealFile is the identity that opens the private keys in the state, in a sweep's directory. With
// a seal, no file of the operator may contain a key, not even the state.
const sealFile = "seal.txt"

// ephemeralKey keeps the SSH key out of plan files, which have the values of all other variables.
const ephemeralKey = `variable "ssh_private_key" {
  ephemeral = true
}
`

// seal creates the identity.
func (s *sweep) seal() error {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return fmt.Errorf("create an identity: %w", err)
	}
	s.identity = identity.String()
	if s.sshKey, err = s.env.Lab.PrivateKey(); err != nil {
		return err
	}
	path := filepath.Join(s.env.Dir, sealFile)
	if err := os.WriteFile(path, []byte(s.identity+"\n"), 0o600); err != nil {
		return fmt.Errorf("create an identity: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(s.env.Dir, temporaryDir), 0o700); err != nil {
		return fmt.Errorf("create an identity: %w", err)
	}
	if err := os.WriteFile(filepath.Join(s.env.Dir, "key_override.tf"), []byte(ephemeralKey), 0o600); err != nil {
		return fmt.Errorf("create an identity: %w", err)
	}
	return s.work.WriteJSON("seal.auto.tfvars.json", map[string]any{"seal_identity_file": path})
}

// temporaryDir is for the temporary files of the CLI and the provider, in a sweep's directory.
const temporaryDir = "tmp"

// hunt searches, for one run, for private keys where they may not be and for half-written files:
// after the cut, and again after the next apply. The keys of the time before the run are searched
// for too: they may no longer be on the machines.
type hunt struct {
	s        *sweep
	files    []secretscan.KeyFile // on the machines
	bundles  []*pki.Bundle
	texts    map[string][]byte // what the operator has, by name
	problems []string
}

func (s *sweep) newHunt() *hunt { return &hunt{s: s, texts: map[string][]byte{}} }

// collect collects the operator's files and the machines' private keys, and checks the machines'
// files. What the operator has is searched at the end, when all keys are known.
func (h *hunt) collect(ctx context.Context, when string) error {
	files, err := secretscan.Files(h.s.env.Dir, mayHaveKeys)
	if err != nil {
		return fmt.Errorf("collect what the operator has: %w", err)
	}
	for name, text := range files {
		h.texts[name+" "+when] = text
	}
	bundles, err := h.s.bundles(files["terraform.tfstate"])
	if err != nil {
		return err
	}
	keys, err := h.s.all().keyFiles(ctx)
	if err != nil {
		return err
	}
	h.files, h.bundles = append(h.files, keys...), append(h.bundles, bundles...)
	for _, file := range keys {
		h.add(when, misplacedKey(file))
	}
	written, err := h.s.all().writtenFiles(ctx)
	if err != nil {
		return err
	}
	programs, err := build.Components(ctx)
	if err != nil {
		return err
	}
	for _, file := range written {
		h.add(when, file.incomplete())
		h.add(when, file.foreign())
		h.add(when, file.truncated(programs))
	}
	return nil
}

func (h *hunt) add(when, problem string) {
	if problem != "" {
		h.problems = append(h.problems, when+": "+problem)
	}
}

// mayHaveKeys reports which of the operator's files are programs, or contain the keys that the
// operator supplies.
func mayHaveKeys(name string) bool {
	return name == "mirror" || name == ".terraform" || name == sealFile || strings.HasSuffix(name, ".tfvars.json")
}

// search returns everything that is wrong, or nil.
func (h *hunt) search() error {
	search, err := h.needles()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(h.texts)) {
		for _, fragments := range search.In(h.texts[name]) {
			h.problems = append(h.problems, name+" contains "+fragments)
		}
	}
	if len(h.problems) > 0 {
		return errors.New(strings.Join(h.problems, "\n"))
	}
	return nil
}

// needles returns the search for everything that is secret.
func (h *hunt) needles() (*secretscan.Search, error) {
	search := secretscan.New()
	search.AddText("the identity", "itself", h.s.identity)
	n := search.AddPEM("the SSH key", h.s.sshKey)
	for _, b := range h.bundles {
		added, err := search.AddBundle(b)
		if err != nil {
			return nil, err
		}
		n += added
	}
	for _, file := range h.files {
		n += search.AddFile(file.Path, file.Text)
	}
	if n < 5 { // the SSH key, and what the smallest bundle has
		return nil, fmt.Errorf("only %d private keys are known: the search for them proves nothing", n)
	}
	return search, nil
}

// bundles opens the bundles of a state.
func (s *sweep) bundles(state []byte) ([]*pki.Bundle, error) {
	if len(state) == 0 {
		return nil, nil
	}
	var document struct {
		Resources []struct {
			Type      string `json:"type"`
			Instances []struct {
				Attributes struct {
					Bundle string `json:"bundle"`
				} `json:"attributes"`
			} `json:"instances"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(state, &document); err != nil {
		return nil, fmt.Errorf("read the state: %w", err)
	}
	seal, err := pki.NewSeal([]string{s.identity}, "", nil)
	if err != nil {
		return nil, err
	}
	var all []*pki.Bundle
	for _, r := range document.Resources {
		for _, instance := range r.Instances {
			if r.Type != "kube_pki_bundle" {
				continue
			}
			b, err := pki.Parse(instance.Attributes.Bundle, seal)
			if err != nil {
				return nil, fmt.Errorf("open the bundle of the state: %w", err)
			}
			all = append(all, b)
		}
	}
	return all, nil
}
