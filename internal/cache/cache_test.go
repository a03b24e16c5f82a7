package cache_test

import (
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/cache"
)

func TestDir(t *testing.T) {
	for name, test := range map[string]struct {
		own, xdg, home string
		want           string
		refused        bool
	}{
		"own variable first":      {own: "/srv/lab", xdg: "/xdg", home: "/home/u", want: "/srv/lab"},
		"then the XDG directory":  {xdg: "/xdg", home: "/home/u", want: "/xdg/terraform-provider-kube"},
		"then the home directory": {home: "/home/u", want: "/home/u/.cache/terraform-provider-kube"},
		"a relative path":         {own: "lab", home: "/home/u", refused: true},
		"no home":                 {refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(cache.Variable, test.own)
			t.Setenv("XDG_CACHE_HOME", test.xdg)
			t.Setenv("HOME", test.home)
			got, err := cache.Dir()
			if (err != nil) != test.refused || got != test.want {
				t.Errorf("Dir() = %q, %v; want %q, refused %v", got, err, test.want, test.refused)
			}
		})
	}
}
