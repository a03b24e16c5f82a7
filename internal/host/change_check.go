package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// plainPath restricts the paths in a Change to characters that a shell neither splits nor
// expands, because CHANGED is a space-separated list.
var plainPath = regexp.MustCompile(`^/[A-Za-z0-9._@+:,=%/~-]*$`)

// plainName is a valid user or group name of useradd(8).
var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)

// checkChange rejects an invalid change before anything is changed.
func checkChange(c Change) error {
	seen := map[string]bool{}
	for _, p := range changePaths(c) {
		if err := checkPath(p); err != nil {
			return err
		}
		if seen[p] {
			return fmt.Errorf("path %s is named twice", p)
		}
		seen[p] = true
	}
	for _, u := range c.Users {
		for _, name := range append([]string{u.Name}, u.Groups...) {
			if !plainName.MatchString(name) {
				return fmt.Errorf("%q is not a user or group name", name)
			}
		}
	}
	for _, l := range c.Links {
		if l.Target == "" || strings.ContainsAny(l.Target, "\n\x00") {
			return fmt.Errorf("link %s: bad target %q", l.Path, l.Target)
		}
	}
	return checkModes(c)
}

func checkPath(p string) error {
	if !plainPath.MatchString(p) || path.Clean(p) != p || p == "/" {
		return fmt.Errorf("path %q: want an absolute, clean path of letters, digits and ._@+:,=%%~-", p)
	}
	return nil
}

func checkModes(c Change) error {
	check := func(p string, mode fs.FileMode, owner, group string) error {
		if mode&^fs.ModePerm != 0 {
			return fmt.Errorf("%s: mode %v has more than permission bits", p, mode)
		}
		for _, name := range []string{owner, group} {
			if name != "" && !plainName.MatchString(name) {
				return fmt.Errorf("%s: %q is not a user or group name", p, name)
			}
		}
		return nil
	}
	var errs []error
	for _, d := range c.Dirs {
		errs = append(errs, check(d.Path, d.Mode, d.Owner, d.Group))
	}
	for _, f := range c.Files {
		errs = append(errs, check(f.Path, f.Mode, f.Owner, f.Group))
	}
	return errors.Join(errs...)
}
