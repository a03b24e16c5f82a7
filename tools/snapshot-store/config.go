package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"

	"filippo.io/age"
)

// config is the file that the provider writes on a machine. It contains no secret: credentials are
// in a file of their own.
type config struct {
	Endpoint        string   `json:"endpoint"` // https://s3.example.com
	Region          string   `json:"region,omitempty"`
	Bucket          string   `json:"bucket"`
	Prefix          string   `json:"prefix,omitempty"`
	Cluster         string   `json:"cluster"`      // the ID: clusters of one name share nothing
	ClusterName     string   `json:"cluster_name"` // for people
	CredentialsFile string   `json:"credentials_file"`
	CACertificate   string   `json:"ca_certificate,omitempty"` // PEM; empty: those of the system
	Recipients      []string `json:"recipients,omitempty"`     // of age; empty: not encrypted
	ObjectLock      *lock    `json:"object_lock,omitempty"`
	Kept            int      `json:"kept"` // verified snapshots in the bucket; 0: none is ever removed

	recipients []age.Recipient
}

// lock is how objects are protected from removal.
type lock struct {
	Mode string `json:"mode"` // governance or compliance
	Days int    `json:"days"`
}

// largestConfig is in bytes.
const largestConfig = 1 << 20

// readConfig reads and checks the configuration.
func readConfig(file string) (config, error) {
	opened, err := os.Open(file)
	if err != nil {
		return config{}, fmt.Errorf("read the configuration: %w", err)
	}
	defer func() { _ = opened.Close() }()
	text, err := io.ReadAll(io.LimitReader(opened, largestConfig))
	if err != nil {
		return config{}, fmt.Errorf("read the configuration: %w", err)
	}
	c, err := parseConfig(text)
	if err != nil {
		return config{}, fmt.Errorf("configuration %s: %w", file, err)
	}
	return c, nil
}

var (
	clusterForm = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)
	bucketForm  = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	prefixForm  = regexp.MustCompile(`^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$`)
)

// parseConfig decodes the configuration strictly.
func parseConfig(text []byte) (config, error) {
	var c config
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return config{}, fmt.Errorf("it is not valid: %w", err)
	}
	if err := c.check(); err != nil {
		return config{}, err
	}
	for i, text := range c.Recipients {
		recipient, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil || len(recipient) != 1 {
			return config{}, fmt.Errorf("recipient %d is not a recipient of age (age1…)", i+1)
		}
		c.recipients = append(c.recipients, recipient[0])
	}
	return c, nil
}

func (c config) check() error {
	switch {
	case !clusterForm.MatchString(c.Cluster):
		return errors.New("cluster is not the ID of a cluster")
	case !bucketForm.MatchString(c.Bucket):
		return fmt.Errorf("%q is not the name of a bucket", c.Bucket)
	case c.Prefix != "" && (!prefixForm.MatchString(c.Prefix) || path.Clean(c.Prefix) != c.Prefix):
		return fmt.Errorf("prefix %q is not a path of letters, digits and . _ -", c.Prefix)
	case !path.IsAbs(c.CredentialsFile):
		return fmt.Errorf("credentials_file %q is not an absolute path", c.CredentialsFile)
	case c.Kept < 0:
		return fmt.Errorf("kept is %d", c.Kept)
	case c.ObjectLock != nil && c.ObjectLock.Mode != "governance" && c.ObjectLock.Mode != "compliance":
		return fmt.Errorf("object_lock has the mode %q, want governance or compliance", c.ObjectLock.Mode)
	case c.ObjectLock != nil && (c.ObjectLock.Days < 1 || c.ObjectLock.Days > 36500):
		return fmt.Errorf("object_lock has %d days, want 1 to 36500", c.ObjectLock.Days)
	}
	return c.checkEndpoint()
}

// checkEndpoint refuses snapshots in the clear on a connection in the clear.
func (c config) checkEndpoint() error {
	u, err := url.Parse(c.Endpoint)
	switch {
	case err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "":
		return fmt.Errorf("endpoint %q is not a URL of a server, such as https://s3.example.com", c.Endpoint)
	case u.Scheme == "http" && len(c.Recipients) == 0:
		return errors.New("the endpoint is http: without recipients, whoever is on the network could read the snapshots")
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("endpoint %q is neither https nor http", c.Endpoint)
	}
	return nil
}

// directory is the prefix of all keys of the cluster.
func (c config) directory() string { return path.Join(c.Prefix, c.Cluster) + "/" }
