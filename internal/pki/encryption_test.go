package pki

import (
	"encoding/base64"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestValidateEncryptionKind(t *testing.T) {
	for kind, wantErr := range map[string]string{
		"secretbox": "", "aescbc": "", "kms": "",
		"aesgcm":   "needs a new key every 200,000 writes",
		"identity": "leave encryption out to store in the clear",
		"":         `unknown encryption provider "": use secretbox, aescbc or kms`,
		"rot13":    `unknown encryption provider "rot13"`,
	} {
		switch err := ValidateEncryptionKind(kind); {
		case wantErr == "" && err != nil:
			t.Errorf("%s: %v", kind, err)
		case wantErr != "":
			wantError(t, err, wantErr)
		}
	}
}

func TestCovers(t *testing.T) {
	e := Encryption{Kind: KMS, Resources: []string{"configmaps", "secrets"}}
	if !e.Covers("secrets") || e.Covers("pods") {
		t.Errorf("covers secrets %t, pods %t", e.Covers("secrets"), e.Covers("pods"))
	}
	if (Encryption{Resources: []string{"secrets"}}).Covers("secrets") {
		t.Error("what is stored in the clear is called encrypted")
	}
}

// TestNewEncryptionKeys: every key is new and has 32 bytes, and its name differs from the previous one,
// whatever number the bundle began with.
func TestNewEncryptionKeys(t *testing.T) {
	keys := map[string]bool{}
	for generation, name := range map[int]string{0: "key1", 1: "key2", 3: "key2", 4: "key3", 6: "key3", 7: "key4"} {
		own := Encryption{Kind: AESCBC, Resources: []string{"secrets"}, Name: "mine", Key: "mine"}
		e, err := own.fresh(generation, nil)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := base64.StdEncoding.DecodeString(e.Key)
		if err != nil || len(raw) != 32 || keys[e.Key] {
			t.Errorf("at %d the key has %d bytes, used before: %t, %v", generation, len(raw), keys[e.Key], err)
		}
		if keys[e.Key] = true; e.Name != name {
			t.Errorf("at %d its name is %s, want %s", generation, e.Name, name)
		}
	}
	for name, want := range map[string]string{"key1": "key2", "key2": "key3", "own": "key2"} { // as imported
		kept := []Encryption{{Kind: AESCBC, Name: name}}
		if e, err := (Encryption{Kind: AESCBC}).fresh(1, kept); err != nil || e.Name != want {
			t.Errorf("after %s comes %s, %v; want %s", name, e.Name, err, want)
		}
	}
	for _, e := range []Encryption{{}, {
		Kind: KMS, Resources: []string{"secrets"}, Name: "vault",
		Endpoint: "unix:///run/kms.sock", Timeout: "3s",
	}} {
		if got, err := e.fresh(1, nil); err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%s becomes %s: %v", e, got, err)
		}
	}
}

// TestKeptNames: a new key has the name of none that the bundle keeps, so that each of them can be used again. Names of
// imported keys are those of before.
func TestKeptNames(t *testing.T) {
	supplied := func(kind EncryptionKind) Next {
		return Next{Encryption: Encryption{Kind: kind, Resources: []string{"secrets"}}}
	}
	type step struct {
		to   int
		kind EncryptionKind
	}
	for _, c := range []struct {
		name  string
		first string
		steps []step
		want  string // name of the next key at the end
	}{
		{"one in use", "key2", []step{{1, Secretbox}}, "key3"},
		{"the former one", "key3", []step{{1, Secretbox}, {2, Secretbox}, {3, Secretbox}, {4, Secretbox}}, "key4"},
		{"a withdrawn one", "own", []step{{1, AESCBC}, {0, Secretbox}, {1, Secretbox}}, "key3"},
		{"two of them", "key3", []step{{1, AESCBC}, {0, Secretbox}, {1, Secretbox}}, "key4"},
		{
			"a withdrawn one, and the former one", "key4",
			[]step{{1, Secretbox}, {2, Secretbox}, {3, Secretbox}, {4, AESCBC}, {3, Secretbox}, {4, Secretbox}},
			"key5",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := encrypting(t)
			b.Encryption.Name = c.first
			for _, s := range c.steps {
				var err error
				if b, err = b.Rotate(map[Part]int{EncryptionPart: s.to}, supplied(s.kind), options()); err != nil {
					t.Fatal(err)
				}
			}
			if got := b.EncryptionRotation.Other.Name; got != c.want {
				t.Errorf("the new key is named %s, want %s", got, c.want)
			}
			names := map[string]bool{}
			for _, e := range b.keptEncryptions() {
				if names[e.Name] {
					t.Errorf("two keys are named %s", e.Name)
				}
				names[e.Name] = true
			}
		})
	}
}

func TestValidateEncryption(t *testing.T) {
	good := encrypting(t).Encryption
	for name, test := range map[string]struct {
		change  func(e *Encryption)
		wantErr string
	}{
		"good":             {func(*Encryption) {}, ""},
		"in the clear":     {func(e *Encryption) { *e = Encryption{} }, ""},
		"kms needs no key": {func(e *Encryption) { e.Kind, e.Key = KMS, "" }, ""},
		"unknown kind":     {func(e *Encryption) { e.Kind = "aesgcm" }, "aesgcm is not safe here"},
		"no resources":     {func(e *Encryption) { e.Resources = nil }, "without resources or name"},
		"no name":          {func(e *Encryption) { e.Name = "" }, "without resources or name"},
		"no key":           {func(e *Encryption) { e.Key = "" }, "encryption key key1 is not 32 bytes in base64"},
		"a short key": {
			func(e *Encryption) { e.Key = base64.StdEncoding.EncodeToString(make([]byte, 16)) },
			"is not 32 bytes",
		},
		"a key in the open": {func(e *Encryption) { e.Key = strings.Repeat("secret ", 5) }, "is not 32 bytes in base64"},
	} {
		e := good
		test.change(&e)
		b := encrypting(t)
		b.Encryption = e
		if test.wantErr == "" {
			if _, err := Parse(encode(t, b), nil); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		_, err := Parse(encode(t, b), nil)
		wantError(t, err, test.wantErr, good.Key, e.Key)
		if e.Key != "" && strings.Contains(err.Error(), e.Key[:5]) {
			t.Errorf("%s: the error quotes the key", name)
		}
	}
}

// TestEncryptionAtEachStage: the encryption used for writing comes first, and the other one is
// readable while either may have been used.
func TestEncryptionAtEachStage(t *testing.T) {
	for name, kinds := range map[string][2]Encryption{
		"another key": {
			{Kind: Secretbox, Resources: []string{"secrets"}},
			{Kind: Secretbox, Resources: []string{"secrets"}},
		},
		"another kind": {
			{Kind: AESCBC, Resources: []string{"secrets"}},
			{Kind: Secretbox, Resources: []string{"secrets"}},
		},
		"encryption is on": {{}, {Kind: Secretbox, Resources: []string{"secrets"}}},
		"it goes off":      {{Kind: Secretbox, Resources: []string{"secrets"}}, {}},
		"to a plugin": {{Kind: Secretbox, Resources: []string{"secrets"}}, {
			Kind: KMS, Resources: []string{"secrets"},
			Name: "vault", Endpoint: "unix:///run/kms.sock", Timeout: "3s",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			o.Supplied.Encryption = kinds[0]
			b, err := Generate(o)
			if err != nil {
				t.Fatal(err)
			}
			first := b.Encryption
			var second Encryption
			for generation, want := range [][]*Encryption{{&first}, {&first, &second}, {&second, &first}, {&second}} {
				if generation > 0 {
					if b, err = b.Rotate(map[Part]int{EncryptionPart: generation}, Next{Encryption: kinds[1]}, o); err != nil {
						t.Fatal(err)
					}
				}
				if generation == 1 {
					second = *b.EncryptionRotation.Other
				}
				var all []Encryption
				for _, e := range want {
					all = append(all, *e)
				}
				if got := b.Encryptions(); !reflect.DeepEqual(got, all) {
					t.Errorf("at %d: %v, want %v", generation, got, all)
				}
				if again, err := Parse(encode(t, b), nil); err != nil || !reflect.DeepEqual(again, b) {
					t.Errorf("at %d the text is another bundle: %v", generation, err)
				}
			}
			if second.Kind != kinds[1].Kind || second.Key != "" && second.Key == first.Key {
				t.Errorf("the second is %s", second)
			}
		})
	}
}

// TestWithdrawnKeys: a key whose introduction is taken back may be needed by snapshots. No API server has it until the
// next rotation to its provider introduces it again.
func TestWithdrawnKeys(t *testing.T) {
	first := encrypting(t)
	adopted := rotate(t, rotate(t, first, EncryptionPart, 1), EncryptionPart, 2)
	name, key := adopted.Encryption.Name, adopted.Encryption.Key
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	value := boxed([32]byte(raw), name)
	back := rotate(t, rotate(t, adopted, EncryptionPart, 1), EncryptionPart, 0)
	if got := back.Encryptions(); !reflect.DeepEqual(got, first.Encryptions()) {
		t.Errorf("the API servers have %v", got)
	}
	wantStep(t, back, value, "set rotation.encryption to 1, with encryption for secretbox")
	if again, err := Parse(encode(t, back), nil); err != nil || !reflect.DeepEqual(again, back) {
		t.Errorf("the text is another bundle: %v", err)
	}
	if text := sealed(t, back, seal(t, []string{identity(t).String()})); strings.Contains(text, key) {
		t.Error("the key is in a sealed text")
	}

	other := Next{Encryption: Encryption{Kind: AESCBC, Resources: []string{"secrets"}}}
	turned, err := back.Rotate(map[Part]int{EncryptionPart: 1}, other, options())
	if err != nil {
		t.Fatal(err)
	}
	wantStep(t, turned, value, "begin one to secretbox")
	back = rotate(t, turned, EncryptionPart, 0) // a rotation to another provider does not lose it
	more := Next{Encryption: Encryption{Kind: Secretbox, Resources: []string{"configmaps", "secrets"}}}
	again, err := back.Rotate(map[Part]int{EncryptionPart: 1}, more, options())
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Encryptions()[1]; got.Name != name || got.Key != key || len(got.Resources) != 2 {
		t.Errorf("%v is introduced, for %v", got, got.Resources)
	}
	if object, err := again.Open(value); string(object) != plainText || err != nil {
		t.Errorf("%q, %v", object, err)
	}
	end := rotate(t, rotate(t, again, EncryptionPart, 2), EncryptionPart, 3)
	wantStep(t, end, boxed([32]byte{}, "key1"), "set rotation.encryption back to 2")
	if e, withdrawn := lastOf(Secretbox, end.WithdrawnKeys); withdrawn {
		t.Errorf("the previous key counts as withdrawn: %v", e)
	}
	if next := rotate(t, end, EncryptionPart, 4).Encryptions()[1]; next.Key == key || next.Name == name {
		t.Errorf("a rotation after it has ended introduces %v again", next)
	}
	back.WithdrawnKeys[0].Key = "short"
	wantError(t, back.Validate(), "is not 32 bytes")
}

func wantStep(t *testing.T, b *Bundle, value []byte, want string) {
	t.Helper()
	if step := b.StepToRead(b.Decrypts(value)); !strings.Contains(step, want) {
		t.Errorf("%q, want %q", step, want)
	}
}

// TestStepsToRead: whatever order the numbers take, what is stored with a key that the bundle has becomes readable by
// the one step that is named. A rotation that has ended drops the key of before the previous one; and of two keys that
// were withdrawn, the next rotation introduces the last one, so no single step leads to the other.
func TestStepsToRead(t *testing.T) {
	for _, c := range []struct {
		path    []int
		without string // the key to which no step leads at its end
	}{
		{[]int{1, 2, 3}, ""},
		{[]int{1, 2, 3, 4}, ""},
		{[]int{1, 2, 3, 4, 3}, ""},
		{[]int{1, 2, 3, 4, 5}, ""},
		{[]int{1, 2, 3, 4, 5, 4, 3}, ""},
		{[]int{1, 2, 3, 4, 3, 4, 5}, ""},
		{[]int{1, 2, 3, 4, 3, 2}, ""},
		{[]int{1, 2, 3, 4, 3, 2, 1, 0}, "key3"},
		{[]int{1, 2, 3, 4, 3, 2, 1, 0, 1}, ""},
		{[]int{1, 0, 1, 2, 3, 4, 3}, ""},
		{[]int{1, 2, 3, 4, 5, 6}, "key1"},
	} {
		b := encrypting(t)
		keys := map[string]string{b.Encryption.Name: b.Encryption.Key}
		for _, to := range c.path {
			b = rotate(t, b, EncryptionPart, to)
			for _, e := range b.Encryptions() {
				keys[e.Name] = e.Key
			}
		}
		for name, key := range keys {
			raw, err := base64.StdEncoding.DecodeString(key)
			if err != nil {
				t.Fatal(err)
			}
			value := boxed([32]byte(raw), name)
			reason := b.Decrypts(value)
			step := b.StepToRead(reason)
			switch {
			case reason == nil:
				continue
			case step == "" && name == c.without:
				continue
			case step == "":
				t.Errorf("%v: no step leads to %s", c.path, name)
				continue
			}
			if err := follow(t, b, step).Decrypts(value); err != nil {
				t.Errorf("%v, then %q: %v", c.path, step, err)
			}
		}
		if again, err := Parse(encode(t, b), nil); err != nil || !reflect.DeepEqual(again, b) {
			t.Errorf("%v: the text is another bundle: %v", c.path, err)
		}
		text := sealed(t, b, seal(t, []string{identity(t).String()}))
		for name, key := range keys {
			if strings.Contains(text, key) {
				t.Errorf("%v: %s is in a sealed text", c.path, name)
			}
		}
	}
}

// follow does what a step says.
func follow(t *testing.T, b *Bundle, step string) *Bundle {
	t.Helper()
	for words, by := range map[string]int{
		"take the rotation of encryption back, then ": -1, "complete the rotation of encryption, then ": 1,
	} {
		for strings.HasPrefix(step, words) && StageOf(b.Generation(EncryptionPart)) != Steady {
			b = rotate(t, b, EncryptionPart, b.Generation(EncryptionPart)+by)
		}
	}
	to := b.Generation(EncryptionPart) + 1 // "begin one"
	if number := regexp.MustCompile(`rotation.encryption (?:back )?to (\d+)`).FindStringSubmatch(step); number != nil {
		to, _ = strconv.Atoi(number[1])
	}
	return rotate(t, b, EncryptionPart, to)
}

func TestDescribes(t *testing.T) {
	plugin := Encryption{
		Kind: KMS, Resources: []string{"secrets"}, Name: "vault", Endpoint: "unix:///run/kms.sock",
		Timeout: "3s",
	}
	other := plugin
	other.Name = "other"
	held := encrypting(t).Encryption
	for name, test := range map[string]struct {
		got, have Encryption
		want      bool
	}{
		"a key and its name are the bundle's": {introduced().Encryption, held, true},
		"another kind":                        {Encryption{Kind: AESCBC, Resources: held.Resources}, held, false},
		"more resources": {
			Encryption{Kind: Secretbox, Resources: []string{"configmaps", "secrets"}},
			held, false,
		},
		"off":             {Encryption{}, held, false},
		"off and off":     {Encryption{}, Encryption{}, true},
		"the same plugin": {plugin, plugin, true},
		"another plugin":  {other, plugin, false},
	} {
		if got := test.got.describes(test.have); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
