package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Key is where a config is shared: one for each hardware class, model, target, objective and kernel table.
type Key struct {
	Class     string `json:"class"` // as Class makes it
	Model     string `json:"model"` // fingerprint, 32 hex digits
	Target    string `json:"target"`
	Objective string `json:"objective"`
	Signature string `json:"signature"` // of the kernel table
}

// Query says which keys are meant. Class is needed; a Model or Signature of "" stands for every one.
type Query struct{ Class, Model, Signature string }

// notOfClass are the fields of an identity that differ between machines of one kind: the steppings of a processor, and
// how much memory was plugged in.
var notOfClass = map[string]bool{"cpu_stepping": true, "memory_class_bytes": true}

// Class is the hardware class of a host: 32 hex digits, the same for every host whose identity (history.Learned.Identity)
// is the same but for the stepping of its processors and the size of its memory.
func Class(identity map[string]string) string {
	kept := map[string]string{}
	for name, value := range identity {
		if !notOfClass[name] {
			kept[name] = value
		}
	}
	doc, err := json.Marshal(kept) // sorts the keys
	if err != nil {
		panic("fleet: strings that do not marshal")
	}
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:16])
}

var (
	fingerprint = regexp.MustCompile(`^[0-9a-f]{32}$`)
	name        = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._:@+-]{0,63}$`)
)

func (k Key) validate() error {
	for _, part := range []struct {
		field, value string
		want         *regexp.Regexp
	}{
		{"class", k.Class, fingerprint},
		{"model", k.Model, fingerprint},
		{"signature", k.Signature, name},
		{"target", k.Target, name},
		{"objective", k.Objective, name},
	} {
		if !part.want.MatchString(part.value) {
			return fmt.Errorf("%s %.80q: want %s", part.field, part.value, part.want)
		}
	}
	return nil
}

// path is class/model/signature/target/objective: what comes first is what is asked for most. Escaping leaves no
// character that a file system or a URL minds.
func (k Key) path() string {
	return strings.Join([]string{k.Class, k.Model, url.QueryEscape(k.Signature), url.QueryEscape(k.Target), url.QueryEscape(k.Objective)}, "/")
}

// parsePath is the inverse of path.
func parsePath(path string) (Key, error) {
	parts := strings.Split(path, "/")
	if len(parts) != 5 {
		return Key{}, fmt.Errorf("%.80q is no key: want class/model/signature/target/objective", path)
	}
	for i := range parts {
		var err error
		if parts[i], err = url.QueryUnescape(parts[i]); err != nil {
			return Key{}, fmt.Errorf("%.80q is no key: %w", path, err)
		}
	}
	k := Key{Class: parts[0], Model: parts[1], Signature: parts[2], Target: parts[3], Objective: parts[4]}
	if err := k.validate(); err != nil {
		return Key{}, fmt.Errorf("%.80q is no key: %w", path, err)
	}
	if k.path() != path {
		return Key{}, fmt.Errorf("%.80q is no key: want it spelled %s", path, k.path())
	}
	return k, nil
}

// matches reports whether q means k.
func (q Query) matches(k Key) bool {
	return q.Class == k.Class && (q.Model == "" || q.Model == k.Model) && (q.Signature == "" || q.Signature == k.Signature)
}

// prefix is what the path of every key that q means begins with.
func (q Query) prefix() (string, error) {
	if !fingerprint.MatchString(q.Class) || (q.Model != "" && !fingerprint.MatchString(q.Model)) {
		return "", fmt.Errorf("class %.80q, model %.80q: want 32 hex digits each", q.Class, q.Model)
	}
	if q.Model == "" {
		return q.Class + "/", nil
	}
	return q.Class + "/" + q.Model + "/", nil
}
