package volume

import (
	"encoding/base64"
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// Observed is what a machine has of a volume.
type Observed struct {
	Device    string   // "" if the machine does not have it
	Copies    []string // the other disks with its name, if none is mounted in place
	Number    string   // of the device
	Size      int64    // of the device, in bytes
	Used      int64    // of the device by its file system, in bytes; 0: not known
	Kind      string   // "ext4", "xfs", "nothing" if it is blank, or what else is on it
	UUID      string   // of its file system
	Elsewhere string   // where else it is mounted on the machine

	At       string // the number of the device that is mounted at the mount path; "" if there is none
	ReadOnly bool   // what is mounted there

	Damaged     bool // the kernel has found an error in its file system, which was not checked since
	Readable    bool // the file system could be looked at
	Files       int  // on the volume, if it has no identity
	Identity    *Identity
	IdentityErr error // why the identity that is there cannot be read
}

// The kinds of a volume that are distinguished.
const (
	Nothing = "nothing"
	Ext4    = "ext4"
	XFS     = "xfs"
)

// InPlace reports whether the volume is mounted where it should be.
func (o Observed) InPlace() bool { return o.Device != "" && o.At != "" && o.At == o.Number }

var (
	numberForm  = regexp.MustCompile(`^[0-9]{1,6}:[0-9]{1,8}$`)
	kindForm    = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,40}$`)
	anyUUIDForm = regexp.MustCompile(`^[0-9A-Fa-f-]{4,40}$`)
	placeForm   = regexp.MustCompile(`^(/[A-Za-z0-9._-]*){1,40}$`)
)

// Read parses the output of the script of Questions. Lines of another form are ignored.
func Read(output string) Observed {
	var o Observed
	for line := range strings.Lines(output) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "volume" {
			continue
		}
		value := ""
		if len(words) > 2 {
			value = words[2]
		}
		if words[1] == "at" && len(words) > 3 && numberForm.MatchString(value) {
			o.At, o.ReadOnly = value, words[3] == "ro"
			continue
		}
		o.set(words[1], value)
	}
	return o
}

func (o *Observed) set(fact, value string) {
	text := func(form *regexp.Regexp, to *string) {
		if form.MatchString(value) {
			*to = value
		}
	}
	switch fact {
	case "device":
		text(devicePath, &o.Device)
	case "copy":
		copied := "another disk"
		text(devicePath, &copied)
		o.Copies = append(o.Copies, copied)
	case "number":
		text(numberForm, &o.Number)
	case "kind":
		text(kindForm, &o.Kind)
	case "uuid":
		text(anyUUIDForm, &o.UUID)
	case "elsewhere":
		text(placeForm, &o.Elsewhere)
	case "size":
		o.Size = bytesIn(value)
	case "used":
		o.Used = bytesIn(value)
	case "damaged":
		o.Damaged = true
	case "readable":
		o.Readable = true
	case "files":
		o.Files = int(bytesIn(value))
	case "identity":
		o.readIdentity(value)
	}
}

func (o *Observed) readIdentity(encoded string) {
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		o.IdentityErr = errors.New("it could not be read completely")
		return
	}
	o.Identity, o.IdentityErr = ReadIdentity(string(text))
}

func bytesIn(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 62)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Unmounted is a volume that a machine has and has not mounted.
type Unmounted struct {
	Device   string
	Identity Identity
}

// ReadUnmounted parses the output of SearchScript. Lines of another form are ignored.
func ReadUnmounted(output string) []Unmounted {
	var all []Unmounted
	for line := range strings.Lines(output) {
		words := strings.Fields(line)
		if len(words) != 3 || words[0] != "unmounted" || !devicePath.MatchString(words[1]) {
			continue
		}
		var o Observed
		if o.readIdentity(words[2]); o.Identity != nil {
			all = append(all, Unmounted{Device: words[1], Identity: *o.Identity})
		}
	}
	return all
}

// growsFrom is how much larger than its file system a device is that has grown.
const growsFrom = 16 << 20

// Grown reports whether the device is larger than its file system.
func (o Observed) Grown() bool { return o.InPlace() && o.Used > 0 && o.Size-o.Used >= growsFrom }
