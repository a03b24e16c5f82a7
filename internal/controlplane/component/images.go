package component

import (
	"cmp"
	"fmt"
	"regexp"
)

// imageRepository is a registry, with a port if it has one, and a path in it.
var imageRepository = regexp.MustCompile(
	`^[a-z0-9]([a-z0-9.-]{0,252}[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]{1,2}[a-z0-9]+)*){0,8}$`)

// ValidateImageRepository returns why text does not name a repository of images.
func ValidateImageRepository(text string) error {
	if len(text) > 200 || !imageRepository.MatchString(text) {
		return fmt.Errorf("malformed image repository %q: a registry and a path in it, such as "+
			"registry.example.com/kubernetes, without a tag", text)
	}
	return nil
}

// Image returns the image that a static pod of a component has.
func (s Replica) Image(name string) string {
	return cmp.Or(s.ImageRepository, DefaultImageRepository) + "/" + name + ":v" + s.Version
}

// owner returns the user whom the files of a component belong to. All static pods run as root.
func (s Replica) owner(component string) string {
	if s.Runtime == StaticPod {
		return "root"
	}
	return component
}
