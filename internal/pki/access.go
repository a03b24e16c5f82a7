package pki

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Access contains what the current context of a kubeconfig provides to an API client, including
// secrets. Fields that the kubeconfig does not set are empty: a user with an exec plugin has
// neither certificate nor token.
type Access struct {
	Cluster   string
	Server    string
	CA        string // PEM
	User      string
	Client    KeyPair
	Token     string
	Namespace string
}

// ParseAccess parses the current context of any kubeconfig, while ParseKubeconfig checks one in
// the form that this provider writes. A reference to another file is an error: without that
// file, a client would have another identity, or another trust, than kubectl with the same
// text. No error quotes the text, because it may contain secrets.
func ParseAccess(text string) (Access, error) {
	access, err := parseAccess(text)
	if err != nil {
		return Access{}, fmt.Errorf("read kubeconfig: %w", err)
	}
	return access, nil
}

func parseAccess(text string) (Access, error) {
	current, err := readCurrent(text)
	if err != nil {
		return Access{}, err
	}
	cluster, user := current.cluster.Cluster, current.user.User
	access := Access{
		Cluster:   current.cluster.Name,
		Server:    cluster.Server,
		User:      current.user.Name,
		Token:     user.Token,
		Namespace: current.context.Context.Namespace,
	}
	if access.CA, err = embedded("certificate-authority", cluster.CAFile, cluster.CA, checkCertificate); err != nil {
		return Access{}, err
	}
	if access.Client.Certificate, err = embedded("client-certificate", user.CertificateFile, user.Certificate,
		checkCertificate); err != nil {
		return Access{}, err
	}
	if access.Client.PrivateKey, err = embedded("client-key", user.KeyFile, user.Key, checkPrivateKey); err != nil {
		return Access{}, err
	}
	if user.TokenFile != "" { // kubectl prefers it over a token
		return Access{}, errors.New("its tokenFile names a file, which is not read: put the token itself into the field " +
			"token")
	}
	return access, nil
}

// embedded decodes a data field. As in kubectl, it takes precedence over the file field.
func embedded(field, file, data string, check func(text string) error) (string, error) {
	switch {
	case data != "":
		return decodeData(field+"-data", data, func(text string) error {
			if !utf8.ValidString(text) {
				return errors.New("it is not text") // Terraform would alter it
			}
			return check(text)
		})
	case file != "":
		return "", fmt.Errorf("its %s names a file, which is not read: kubectl config view --flatten puts the content of "+
			"files into the kubeconfig", field)
	}
	return "", nil
}

// checkPrivateKey requires a PEM block of a private key of any kind. Whether the client can use
// it is up to the client.
func checkPrivateKey(text string) error {
	if !slices.Contains(pemKinds(text), privateKeyKind) {
		return fmt.Errorf("no PEM private key in it: %s", describePEM(text))
	}
	return nil
}
