package pki

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Access is what the current context of a kubeconfig gives to a client of the
// API, secrets included. What the kubeconfig does not have is empty: a user
// with an exec plugin has neither certificate nor token.
type Access struct {
	Cluster   string
	Server    string
	CA        string // PEM
	User      string
	Client    KeyPair
	Token     string
	Namespace string
}

// ParseAccess reads the current context of any kubeconfig, where
// ParseKubeconfig judges one of the form that this provider writes. What the
// kubeconfig leaves to another file is an error: without it a client would be
// somebody else, or trust somebody else, than kubectl with the same text. No
// error quotes the text, because it may hold secrets.
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
	if user.TokenFile != "" { // to kubectl it counts more than a token beside it
		return Access{}, errors.New("its tokenFile names a file, which is not read: put the token itself into the field token")
	}
	return access, nil
}

// embedded decodes a data field. As with kubectl it counts more than a file
// named beside it.
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
		return "", fmt.Errorf("its %s names a file, which is not read: kubectl config view --flatten puts the content of files into the kubeconfig", field)
	}
	return "", nil
}

// checkPrivateKey asks for a PEM block of a private key of any kind: whether
// the client can use it is the client's to say.
func checkPrivateKey(text string) error {
	if !slices.Contains(pemKinds(text), privateKeyKind) {
		return fmt.Errorf("no PEM private key in it: %s", describePEM(text))
	}
	return nil
}
