package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/bitnet-autotune/bitnet-autotune/history"
)

// Entry is what is shared: a config with the summary of its proof, never raw samples.
type Entry struct {
	Key
	ModelName   string            `json:"model_name,omitempty"`
	Host        string            `json:"host"` // fingerprint of the host that the config was measured on, 32 hex digits
	Identity    map[string]string `json:"identity"`
	Envelope    map[string]string `json:"envelope,omitempty"` // limits under which it was measured
	Config      json.RawMessage   `json:"config"`
	Certificate json.RawMessage   `json:"certificate,omitempty"` // what trim leaves of it
	Curve       json.RawMessage   `json:"curve,omitempty"`
	Blocks      int               `json:"blocks"` // paired blocks behind the regimes that were decided
	Evaluations int               `json:"evaluations"`
	Ratio       Ratio             `json:"ratio"`
	MeasuredAt  time.Time         `json:"measured_at"` // by the clock of the host that measured
	// Contributors are marks of the hosts that pushed to this key, in order, the first maxContributors of them.
	Contributors []string `json:"contributors"`
	Generation   uint64   `json:"generation"` // raised by each change of what is stored
}

// Hosts is how many hosts have contributed to the key, of which at most maxContributors are counted.
func (e Entry) Hosts() int { return len(e.Contributors) }

// Ratio is default cost over best cost (above 1 the best is faster) with its interval; all are 0 where it is unknown.
type Ratio struct {
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// FromLearned is what of l is shared. The condition of the host, names of files and whatever a certificate says beyond
// the proof stay behind.
func FromLearned(l history.Learned) (Entry, error) {
	e, err := fromLearned(l)
	if err != nil {
		return Entry{}, fmt.Errorf("fleet: share: %w", err)
	}
	return e, nil
}

func fromLearned(l history.Learned) (e Entry, err error) {
	e = Entry{
		Key:  Key{Class: Class(l.Identity), Model: l.Model, Target: l.Target, Objective: l.Objective, Signature: l.Signature},
		Host: l.Host, Identity: l.Identity, Envelope: l.Envelope, MeasuredAt: l.MeasuredAt.UTC().Round(0), Evaluations: l.Evaluations,
		Contributors: []string{},
	}
	if name.MatchString(l.ModelName) { // not a path
		e.ModelName = l.ModelName
	}
	if e.Config, err = history.Canonical(l.Config); err != nil {
		return e, fmt.Errorf("config: %w", err)
	}
	if len(l.Curve) > 0 {
		if e.Curve, err = history.Canonical(l.Curve); err != nil {
			return e, fmt.Errorf("curve: %w", err)
		}
	}
	if len(l.Certificate) > 0 {
		if err := e.take(l.Certificate); err != nil {
			return e, fmt.Errorf("certificate: %w", err)
		}
	}
	_, err = e.encode()
	return e, err
}

// Learned is e as a learned config. It was measured elsewhere, also where its identity is this host's own.
func (e Entry) Learned() (history.Learned, error) {
	if err := e.validate(); err != nil {
		return history.Learned{}, fmt.Errorf("fleet: entry %s: %w", e.path(), err)
	}
	return history.Learned{
		Host: e.Host, Model: e.Model, ModelName: e.ModelName, Target: e.Target, Objective: e.Objective, Signature: e.Signature,
		Identity: e.Identity, Envelope: e.Envelope, Config: e.Config, Certificate: e.Certificate, Curve: e.Curve,
		MeasuredAt: e.MeasuredAt, Evaluations: e.Evaluations,
	}, nil
}

// document is an entry as it is stored. The checksum is of the bytes of the entry as they stand.
type document struct {
	Fleet  int             `json:"fleet"`
	SHA256 string          `json:"sha256"`
	Entry  json.RawMessage `json:"entry"`
}

// formatVersion is the version of the document, and of the place where it lies: hosts of two versions do not meet.
const formatVersion = 1

// maxEntryBytes bounds a document. One of the CPU is 4 KB.
const maxEntryBytes = 64 << 10

// encode returns the document of e.
func (e Entry) encode() ([]byte, error) {
	if err := e.validate(); err != nil {
		return nil, err
	}
	entry, err := history.Marshal(e)
	if err != nil {
		return nil, err
	}
	doc, err := history.Marshal(document{formatVersion, checksum(entry), entry})
	if err == nil && len(doc) > maxEntryBytes {
		err = fmt.Errorf("%d bytes: want at most %d", len(doc), maxEntryBytes)
	}
	if err == nil {
		_, err = decode(e.path(), doc) // nothing leaves that would not be let in
	}
	return doc, err
}

// decode returns the entry of a document that lies at path, if it is sound.
func decode(path string, doc []byte) (e Entry, err error) {
	if len(doc) > maxEntryBytes {
		return e, fmt.Errorf("%d bytes: want at most %d", len(doc), maxEntryBytes)
	}
	var d document
	if err := json.Unmarshal(doc, &d); err != nil {
		return e, fmt.Errorf("no document: %w", err)
	}
	if d.Fleet > formatVersion {
		return e, newerError(d.Fleet)
	}
	if d.Fleet != formatVersion {
		return e, fmt.Errorf("format %d: want %d", d.Fleet, formatVersion)
	}
	if sum := checksum(d.Entry); d.SHA256 != sum {
		return e, fmt.Errorf("checksum %.64q: want %s", d.SHA256, sum)
	}
	if err := printable(d.Entry); err != nil {
		return e, err
	}
	dec := json.NewDecoder(bytes.NewReader(d.Entry))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		return Entry{}, err
	}
	if err := e.validate(); err != nil {
		return Entry{}, err
	}
	if e.path() != path {
		return Entry{}, fmt.Errorf("lies at %s: want %s", path, e.path())
	}
	return e, nil
}

// newerError is the version of a document that is newer than this program. Such a one is never overwritten.
type newerError int

func (v newerError) Error() string {
	return fmt.Sprintf("format %d is newer than %d: want a newer bitnet-autotune", int(v), formatVersion)
}

// maxCount is beyond what any tuner will measure.
const maxCount = 1_000_000_000

// maxRatio is beyond any gain: 45 is the largest that was ever reported of a setting.
const maxRatio = 1000

func (e Entry) validate() error {
	if err := e.Key.validate(); err != nil {
		return err
	}
	if class := Class(e.Identity); class != e.Class {
		return fmt.Errorf("class %s: the identity is of class %s", e.Class, class)
	}
	if !fingerprint.MatchString(e.Host) {
		return fmt.Errorf("host %.80q: want 32 hex digits", e.Host)
	}
	if e.ModelName != "" && !name.MatchString(e.ModelName) {
		return fmt.Errorf("model_name %.80q: want %s", e.ModelName, name)
	}
	for field, doc := range map[string]json.RawMessage{"config": e.Config, "certificate": e.Certificate, "curve": e.Curve} {
		if (len(doc) > 0 || field == "config") && (!json.Valid(doc) || !bytes.HasPrefix(doc, []byte{'{'})) {
			return fmt.Errorf("%s %.40q: want a JSON object", field, doc)
		}
	}
	if e.Blocks < 0 || e.Blocks > maxCount || e.Evaluations < 0 || e.Evaluations > maxCount {
		return fmt.Errorf("blocks %d, evaluations %d: want 0 to %d", e.Blocks, e.Evaluations, maxCount)
	}
	if r := e.Ratio; r != (Ratio{}) && !(0 <= r.Low && r.Low <= r.Estimate && r.Estimate <= r.High && 0 < r.Estimate && r.High <= maxRatio) &&
		!(r.Low == 0 && r.High == 0 && 0 < r.Estimate && r.Estimate <= maxRatio) {
		return fmt.Errorf("ratio %g in %g to %g: want an estimate within its interval, at most %d", r.Estimate, r.Low, r.High, maxRatio)
	}
	return validContributors(e.Contributors)
}

// printable refuses a document with a string that could do harm on a terminal, or that nests without end.
func printable(doc []byte) error {
	dec := json.NewDecoder(bytes.NewReader(doc))
	depth := 0
	for {
		token, err := dec.Token()
		if err != nil {
			break // the end, or what Decode will say better
		}
		switch v := token.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				depth++
			} else {
				depth--
			}
			if depth > 32 {
				return fmt.Errorf("nests deeper than 32 levels")
			}
		case string:
			if i := strings.IndexFunc(v, func(r rune) bool { return !unicode.IsGraphic(r) }); i >= 0 {
				return fmt.Errorf("text %.40q: want printable characters", v[i:])
			}
		}
	}
	return nil
}
