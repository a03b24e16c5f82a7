package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// largestCredentials is in bytes.
const largestCredentials = 64 << 10

// readCredentials reads a credentials file. Nobody but its owner may have access to it. No error
// contains any of its content.
func readCredentials(file string) (credentials.Value, error) {
	opened, err := os.Open(file)
	if err != nil {
		return credentials.Value{}, fmt.Errorf("read the credentials: %w", err)
	}
	defer func() { _ = opened.Close() }()
	info, err := opened.Stat()
	switch {
	case err != nil:
		return credentials.Value{}, fmt.Errorf("read the credentials: %w", err)
	case !info.Mode().IsRegular():
		return credentials.Value{}, fmt.Errorf("credentials file %s is not a file", file)
	case info.Mode().Perm()&0o077 != 0:
		return credentials.Value{}, fmt.Errorf("credentials file %s has mode %04o: others can read or change it; run "+
			"chmod 0600 %s, and replace the credentials if others have had access", file, info.Mode().Perm(), file)
	}
	text, err := io.ReadAll(io.LimitReader(opened, largestCredentials))
	if err != nil {
		return credentials.Value{}, fmt.Errorf("read the credentials: %w", err)
	}
	value, err := parseCredentials(string(text))
	if err != nil {
		return credentials.Value{}, fmt.Errorf("credentials file %s: %w", file, err)
	}
	return value, nil
}

// parseCredentials reads the profile "default" of a file as AWS's tools write it, or lines without
// a profile.
func parseCredentials(text string) (credentials.Value, error) {
	value := credentials.Value{SignerType: credentials.SignatureV4}
	fields := map[string]*string{
		"aws_access_key_id": &value.AccessKeyID, "aws_secret_access_key": &value.SecretAccessKey,
		"aws_session_token": &value.SessionToken,
	}
	profile := "default"
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			profile = strings.TrimSpace(strings.TrimSuffix(name, "]"))
			continue
		}
		name, content, ok := strings.Cut(line, "=")
		if field := fields[strings.ToLower(strings.TrimSpace(name))]; ok && field != nil && profile == "default" {
			*field = strings.TrimSpace(content)
		}
	}
	if value.AccessKeyID == "" || value.SecretAccessKey == "" {
		return credentials.Value{}, errors.New("it has no lines aws_access_key_id = … and aws_secret_access_key = … " +
			"in the profile [default]")
	}
	for _, field := range fields {
		if strings.ContainsFunc(*field, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return credentials.Value{}, errors.New("a value has spaces or characters other than ASCII")
		}
	}
	return value, nil
}
