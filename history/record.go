package history

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"
)

// Record is one measurement of one configuration. Records are append-only.
type Record struct {
	Run    uint64    `json:"run,string"`     // the run that took it, from NewRunID
	Seq    uint32    `json:"seq"`            // its number within the run; (Run, Seq) makes a retry harmless
	Time   time.Time `json:"time,omitzero"`  // when; the zero time is unknown
	Host   string    `json:"host"`           // fingerprint of the host, 32 hex digits
	Model  string    `json:"model"`          // fingerprint of the model, 32 hex digits
	Target string    `json:"target"`         // where it was measured: "cpu", "cuda", "engine:NAME"
	Regime string    `json:"regime"`         // how: "decode", "small_batch", "prefill"; "online/…" while a service ran
	Note   string    `json:"note,omitempty"` // why it failed, what was censored

	// Config is the setting as JSON. It is stored in canonical form (keys sorted, no space), and its hash is the
	// config id in the key.
	Config json.RawMessage `json:"config"`

	Kernel    string `json:"kernel,omitempty"`    // name of the kernel
	KernelRev int    `json:"kernel_rev"`          // its revision
	Signature string `json:"signature,omitempty"` // signature of the kernel table

	Status  string        `json:"status"`               // one of the Status constants
	Costs   []float64     `json:"costs,omitempty"`      // candidate / base for each paired block; less is better
	Samples []float64     `json:"samples_ns,omitempty"` // ns per token of the candidate
	Elapsed time.Duration `json:"elapsed_ns"`           // what taking the measurement cost
}

// What can become of a measurement. A failure is one of these, never a cost of 0 or +Inf.
const (
	StatusOK          = "ok"
	StatusTimeout     = "timeout"
	StatusCrash       = "crash"
	StatusOutOfMemory = "out_of_memory"
	StatusMismatch    = "mismatch"
	StatusRejected    = "rejected"
	StatusCensored    = "censored"
)

var statuses = []string{StatusOK, StatusTimeout, StatusCrash, StatusOutOfMemory, StatusMismatch, StatusRejected, StatusCensored}

// ConfigID is the number that stands for a setting in keys: 64 bits of the SHA-256 of its canonical JSON.
func ConfigID(config []byte) (uint64, error) {
	doc, err := Canonical(config)
	if err != nil {
		return 0, fmt.Errorf("history: config: %w", err)
	}
	return hash64(doc), nil
}

// encode returns the key and the sealed value of r.
func (r Record) encode() (key, value []byte, err error) {
	config, err := Canonical(r.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("config: %w", err)
	}
	if err := r.validate(); err != nil {
		return nil, nil, err
	}
	key, err = sampleKey{r.Host, r.Model, r.Target, r.Regime, hash64(config), r.Run, r.Seq}.encode()
	if err != nil {
		return nil, nil, err
	}
	payload := r.payload(config)
	if len(payload) > maxValueBytes/2 {
		return nil, nil, fmt.Errorf("%d bytes: want at most %d", len(payload), maxValueBytes/2)
	}
	return key, seal(key, codecRecord, payload), nil
}

// validate checks what no key or codec would notice.
func (r Record) validate() error {
	if !slices.Contains(statuses, r.Status) {
		return fmt.Errorf("status %q: want one of %q", r.Status, statuses)
	}
	if year := r.Time.UTC().Year(); !r.Time.IsZero() && (year < 1970 || year > 2261) {
		return fmt.Errorf("time %s: want a year from 1970 to 2261", r.Time)
	}
	for i, cost := range r.Costs {
		if !(cost > 0) || math.IsInf(cost, 0) {
			return fmt.Errorf("cost %d is %v: want a positive number; a failure is a status", i, cost)
		}
	}
	for i, sample := range r.Samples {
		if !(sample > 0) || math.IsInf(sample, 0) {
			return fmt.Errorf("sample %d is %v ns: want a positive number; a failure is a status", i, sample)
		}
	}
	return nil
}

// payload writes the fields that are not in the key, in the order of FORMAT.md.
func (r Record) payload(config []byte) []byte {
	p := make([]byte, 0, 128+len(config)+len(r.Note)+8*(len(r.Costs)+len(r.Samples)))
	p = binary.AppendVarint(p, unixNano(r.Time))
	p = binary.AppendVarint(p, int64(r.Elapsed))
	p = appendText(p, r.Status)
	p = appendText(p, r.Kernel)
	p = binary.AppendVarint(p, int64(r.KernelRev))
	p = appendText(p, r.Signature)
	p = appendText(p, string(config))
	p = appendFloats(p, r.Costs)
	p = appendFloats(p, r.Samples)
	return appendText(p, r.Note)
}

// decodeRecord is the inverse of encode.
func decodeRecord(key, value []byte) (Record, error) { return new(decoder).decode(key, value) }

// decoder decodes records one after the other. Texts that one has in common with the one before it are not made anew: the
// records of a cell share nearly all, and what a lookup of 100 allocates decides how often it meets the collector, which
// is what its 99th percentile consists of.
type decoder struct {
	place []byte // the key of the record before, but for its tail
	last  Record
}

func (d *decoder) decode(key, value []byte) (Record, error) {
	k, err := d.parse(key)
	if err != nil {
		return Record{}, err
	}
	payload, err := unseal(key, value, codecRecord)
	if err != nil {
		return Record{}, fmt.Errorf("run %d seq %d: %w", k.run, k.seq, err)
	}
	p := fields{rest: payload}
	r := Record{
		Run: k.run, Seq: k.seq, Host: k.host, Model: k.model, Target: k.target, Regime: k.regime,
		Time:      fromUnixNano(p.varint()),
		Elapsed:   time.Duration(p.varint()),
		Status:    p.text(d.last.Status),
		Kernel:    p.text(d.last.Kernel),
		KernelRev: int(p.varint()),
		Signature: p.text(d.last.Signature),
		Config:    bytes.Clone(p.take(1)),
		Costs:     p.floats(),
		Samples:   p.floats(),
		Note:      p.text(d.last.Note),
	}
	if p.failed || len(p.rest) > 0 {
		return Record{}, fmt.Errorf("run %d seq %d: %w: fields do not fit the payload", k.run, k.seq, ErrCorrupt)
	}
	if hash64(r.Config) != k.config {
		return Record{}, fmt.Errorf("run %d seq %d: %w: config is not the one of the key", k.run, k.seq, ErrCorrupt)
	}
	d.place, d.last = append(d.place[:0], key[:len(key)-sampleTailBytes]...), r
	return r, nil
}

// parse is parseSampleKey.
func (d *decoder) parse(key []byte) (sampleKey, error) {
	place := len(key) - sampleTailBytes
	if place <= 0 || !bytes.Equal(key[:place], d.place) {
		return parseSampleKey(key)
	}
	k := sampleKey{host: d.last.Host, model: d.last.Model, target: d.last.Target, regime: d.last.Regime}
	k.parseTail(key[place:])
	return k, nil
}

// unixNano is 0 for the zero time.
func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromUnixNano(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

func appendText(p []byte, s string) []byte {
	return append(binary.AppendUvarint(p, uint64(len(s))), s...)
}

func appendFloats(p []byte, values []float64) []byte {
	p = binary.AppendUvarint(p, uint64(len(values)))
	for _, v := range values {
		p = binary.BigEndian.AppendUint64(p, math.Float64bits(v))
	}
	return p
}

// fields takes fields off the front of a payload; from the first that does not fit, all are zero.
type fields struct {
	rest   []byte
	failed bool
}

// skip drops the n bytes that a varint took; n <= 0 means there was none.
func (f *fields) skip(n int) {
	if n <= 0 {
		f.failed, f.rest = true, nil
		return
	}
	f.rest = f.rest[n:]
}

func (f *fields) varint() int64 {
	v, n := binary.Varint(f.rest)
	f.skip(n)
	return v
}

// take reads a count of items of the given size and returns their bytes.
func (f *fields) take(size int) []byte {
	count, n := binary.Uvarint(f.rest)
	f.skip(n)
	if count > uint64(len(f.rest)/size) {
		f.failed, f.rest = true, nil
		return nil
	}
	taken := f.rest[:int(count)*size]
	f.rest = f.rest[len(taken):]
	return taken
}

// text reads a text, and returns last where it is the same.
func (f *fields) text(last string) string {
	raw := f.take(1)
	if string(raw) == last { // does not allocate
		return last
	}
	return string(raw)
}

func (f *fields) floats() []float64 {
	raw := f.take(8)
	if len(raw) == 0 {
		return nil
	}
	values := make([]float64, len(raw)/8)
	for i := range values {
		values[i] = math.Float64frombits(binary.BigEndian.Uint64(raw[8*i:]))
	}
	return values
}
