package pki

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"sigs.k8s.io/yaml"
)

// KubeconfigSpec is the content of a kubeconfig: one cluster, one user.
type KubeconfigSpec struct {
	Cluster string
	Server  string // "https://10.0.0.11:6443"
	CA      string // PEM
	User    string
	Client  KeyPair
}

// KubeconfigInfo is the content of a kubeconfig without its private key.
type KubeconfigInfo struct {
	Cluster           string
	Server            string
	CA                string // PEM
	User              string
	ClientCertificate string // PEM
}

// kubeconfig is the schema of the file (k8s.io/client-go/tools/clientcmd/api/v1), limited to
// what kubeadm writes and what Access needs. The YAML library sorts fields by name, as it does
// for kubeadm.
type kubeconfig struct {
	APIVersion     string         `json:"apiVersion"`
	Kind           string         `json:"kind"`
	Clusters       []namedCluster `json:"clusters"`
	Contexts       []namedContext `json:"contexts"`
	CurrentContext string         `json:"current-context"`
	Users          []namedUser    `json:"users"`
}

type namedCluster struct {
	Name    string `json:"name"`
	Cluster struct {
		Server string `json:"server"`
		CA     string `json:"certificate-authority-data"`
		CAFile string `json:"certificate-authority,omitempty"`
	} `json:"cluster"`
}

type namedContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster   string `json:"cluster"`
		User      string `json:"user"`
		Namespace string `json:"namespace,omitempty"`
	} `json:"context"`
}

type namedUser struct {
	Name string `json:"name"`
	User struct {
		Certificate     string `json:"client-certificate-data"`
		CertificateFile string `json:"client-certificate,omitempty"`
		Key             string `json:"client-key-data,omitempty"`
		KeyFile         string `json:"client-key,omitempty"`
		Token           string `json:"token,omitempty"`
		TokenFile       string `json:"tokenFile,omitempty"`
	} `json:"user"`
}

// Kubeconfig renders a kubeconfig as kubeadm does, with all data embedded. It contains a
// private key.
func Kubeconfig(k KubeconfigSpec) (string, error) {
	if err := k.validate(); err != nil {
		return "", fmt.Errorf("write kubeconfig of %q: %w", k.User, err)
	}
	var cluster namedCluster
	cluster.Name, cluster.Cluster.Server, cluster.Cluster.CA = k.Cluster, k.Server, encode64(k.CA)
	var user namedUser
	user.Name, user.User.Certificate, user.User.Key = k.User, encode64(k.Client.Certificate), encode64(k.Client.PrivateKey)
	var context namedContext
	context.Name, context.Context.Cluster, context.Context.User = k.User+"@"+k.Cluster, k.Cluster, k.User
	text, err := yaml.Marshal(kubeconfig{
		APIVersion:     "v1",
		Kind:           "Config",
		Clusters:       []namedCluster{cluster},
		Contexts:       []namedContext{context},
		CurrentContext: context.Name,
		Users:          []namedUser{user},
	})
	if err != nil {
		return "", fmt.Errorf("write kubeconfig of %q: it cannot be encoded", k.User)
	}
	return string(text), nil
}

// ValidateServer returns why address cannot be the server of a kubeconfig, or nil.
func ValidateServer(address string) error {
	if server, err := url.Parse(address); err != nil || server.Scheme != "https" || server.Hostname() == "" ||
		server.User != nil {
		return errors.New("server must be an https URL, with brackets around an IPv6 address")
	}
	return nil
}

func (k KubeconfigSpec) validate() error {
	if k.Cluster == "" || k.User == "" {
		return errors.New("cluster and user need names")
	}
	if err := ValidateServer(k.Server); err != nil {
		return err
	}
	if _, err := parseTrusted(k.CA); err != nil {
		return fmt.Errorf("authority: %w", err)
	}
	certificate, err := firstCertificate(k.Client.Certificate)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	key, err := parseKey(k.Client.PrivateKey)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	if !samePublicKey(key.Public(), certificate.PublicKey) {
		return errors.New("client: private key does not match the certificate")
	}
	return nil
}

// ParseKubeconfig parses the current context of a kubeconfig, so that a file on a machine can
// be checked. It does not decode the private key. Credentials other than embedded certificates
// are an error. No error quotes the text, because it may contain a key.
func ParseKubeconfig(text string) (KubeconfigInfo, error) {
	info, err := parseKubeconfig(text)
	if err != nil {
		return KubeconfigInfo{}, fmt.Errorf("read kubeconfig: %w", err)
	}
	return info, nil
}

func parseKubeconfig(text string) (KubeconfigInfo, error) {
	current, err := readCurrent(text)
	if err != nil {
		return KubeconfigInfo{}, err
	}
	cluster, user := current.cluster, current.user
	info := KubeconfigInfo{Cluster: cluster.Name, Server: cluster.Cluster.Server, User: user.Name}
	if info.CA, err = decodeCertificate("certificate-authority-data", cluster.Cluster.CA); err != nil {
		return KubeconfigInfo{}, err
	}
	if info.ClientCertificate, err = decodeCertificate("client-certificate-data", user.User.Certificate); err != nil {
		return KubeconfigInfo{}, err
	}
	return info, nil
}

// current is the current context of a kubeconfig with its cluster and user.
type current struct {
	context namedContext
	cluster namedCluster
	user    namedUser
}

// readCurrent parses the parts of a kubeconfig that every reader needs.
func readCurrent(text string) (current, error) {
	if strings.TrimSpace(text) == "" {
		return current{}, errors.New("it is empty")
	}
	var file kubeconfig
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		return current{}, errors.New("it is not the YAML of a kubeconfig")
	}
	if file.APIVersion != "v1" || file.Kind != "Config" {
		return current{}, errors.New("it is not of apiVersion v1 and kind Config")
	}
	c, err := file.current()
	if err != nil {
		return current{}, err
	}
	if c.cluster.Cluster.Server == "" {
		return current{}, errors.New("it names no server")
	}
	return c, nil
}

// current resolves the current context to its cluster and user.
func (f kubeconfig) current() (c current, err error) {
	if f.CurrentContext == "" {
		return c, errors.New("it has no current context: kubectl config use-context sets one")
	}
	c.context, err = only("current context", f.Contexts, func(n namedContext) bool { return n.Name == f.CurrentContext })
	if err != nil {
		return c, err
	}
	c.cluster, err = only("cluster of the current context", f.Clusters,
		func(n namedCluster) bool { return n.Name == c.context.Context.Cluster })
	if err != nil {
		return c, err
	}
	c.user, err = only("user of the current context", f.Users,
		func(n namedUser) bool { return n.Name == c.context.Context.User })
	return c, err
}

// only returns the single element that matches. client-go rejects a file with duplicate names
// too.
func only[T any](what string, list []T, match func(T) bool) (entry T, err error) {
	n := 0
	for _, item := range list {
		if match(item) {
			entry = item
			n++
		}
	}
	if n != 1 {
		return entry, fmt.Errorf("it has %d entries for the %s instead of one", n, what)
	}
	return entry, nil
}

func decodeCertificate(field, data string) (string, error) {
	if data == "" {
		return "", fmt.Errorf("it has no %s", field)
	}
	return decodeData(field, data, checkCertificate)
}

func checkCertificate(text string) error {
	_, err := firstCertificate(text)
	return err
}

// decodeData decodes the base64 of a data field.
func decodeData(field, data string, check func(text string) error) (string, error) {
	text, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return "", fmt.Errorf("its %s is not base64", field)
	}
	if err := check(string(text)); err != nil {
		return "", fmt.Errorf("its %s cannot be used: %w", field, err)
	}
	return string(text), nil
}

func encode64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
