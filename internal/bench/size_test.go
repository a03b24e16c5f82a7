package bench

import (
	"slices"
	"testing"
)

func TestParseSizes(t *testing.T) {
	for text, want := range map[string][]Size{
		"10MB":          {10_000_000},
		"10MB,1GB,4 GB": {10_000_000, 1_000_000_000, 4_000_000_000},
		"1000MB, 1GB":   {1_000_000_000, 1_000_000_000},
		"":              nil,
		"10":            nil,
		"0MB":           nil,
		"-1GB":          nil,
		"1.5GB":         nil,
		"10MB,,1GB":     nil,
		"10MB;rm -rf /": nil,
		"9999999GB":     nil,
	} {
		got, err := ParseSizes(text)
		if !slices.Equal(got, want) || (err != nil) != (want == nil) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
}

// TestEnough: a database that does not fit is refused before anything is filled.
func TestEnough(t *testing.T) {
	sizes := []Size{10 * megabyte, gigabyte}
	if err := enough(8*gigabyte, "/cache", sizes); err != nil {
		t.Error(err)
	}
	want := "a database of 1 GB needs 8000 MB of free space in /cache, which has 7999"
	if err := enough(8*gigabyte-1, "/cache", sizes); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestSizeNames: a name can be parsed again.
func TestSizeNames(t *testing.T) {
	for size, want := range map[Size]string{10 * megabyte: "10 MB", 1500 * megabyte: "1500 MB", 4 * gigabyte: "4 GB"} {
		again, err := ParseSizes(size.String())
		if size.String() != want || err != nil || !slices.Equal(again, []Size{size}) {
			t.Errorf("%d is called %q, want %q, and parsed as %v, %v", size, size, want, again, err)
		}
	}
}
