package t4

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
)

// recorded is the target and the regime of what other tuners measured.
const recorded = "recorded"

// Import turns the entries of a file into records for a history. An entry that Records made gives the records back that
// it was made of. One of another tuner gives a record of a host and a model that stand for the file's device and kernel,
// and Run then describes the file.
type Import struct {
	rd      *Reader
	run     history.Run
	foreign uint32 // entries of another tuner so far
}

// NewImport returns an import of what rd reads.
func NewImport(rd *Reader) *Import { return &Import{rd: rd} }

// All returns the records in the order of the file. It ends with the first error.
func (m *Import) All() iter.Seq2[history.Record, error] {
	return func(yield func(history.Record, error) bool) {
		for {
			e, err := m.rd.Next()
			if err == io.EOF {
				return
			}
			var records []history.Record
			if err == nil {
				records, err = m.records(e)
			}
			if err != nil {
				yield(history.Record{}, err)
				return
			}
			for _, r := range records {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// Run is the run that stands for the entries of another tuner, once all were read; false where there were none. The same
// file makes the same run.
func (m *Import) Run() (history.Run, bool) { return m.run, m.foreign > 0 }

func (m *Import) records(e Entry) ([]history.Record, error) {
	for _, f := range e.Rest {
		if f.Name != recordsField {
			continue
		}
		var own []history.Record
		dec := json.NewDecoder(strings.NewReader(f.JSON))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&own); err != nil {
			return nil, m.rd.fail(within(recordsField, err))
		}
		return own, nil
	}
	r, err := m.record(e)
	if err != nil {
		return nil, m.rd.fail(err)
	}
	return []history.Record{r}, nil
}

// record makes one record of an entry of another tuner.
func (m *Import) record(e Entry) (history.Record, error) {
	at := moment(e.Stamp)
	if m.foreign == 0 {
		m.begin(at)
	}
	m.foreign++
	if at.After(m.run.Finished) {
		m.run.Finished = at
	}
	config, err := m.config(e)
	if err != nil {
		return history.Record{}, err
	}
	r := history.Record{
		Run: m.run.ID, Seq: m.foreign, Time: at, Host: m.run.Host, Model: m.run.Model, Target: recorded, Regime: recorded,
		Config: config, Status: history.StatusOK, Elapsed: time.Duration(e.Cost() * float64(time.Millisecond)),
	}
	if e.Failed() {
		r.Status, r.Note = StatusOf(e.Failure), e.Failure
		return r, nil
	}
	times := e.Times
	if len(times) == 0 {
		times = []float64{e.Time}
	}
	for _, ms := range times {
		r.Samples = append(r.Samples, ms*float64(time.Millisecond))
	}
	return r, nil
}

// begin makes the run of a file whose first entry was measured at a time.
func (m *Import) begin(at time.Time) {
	head := m.rd.Header()
	host, model := digest(head.Device), digest(head.Kernel, head.ProblemSize)
	lot := digest(head.Device, head.Kernel, head.ProblemSize, head.objective())
	begun := max(0, at.UnixMilli())
	m.run = history.Run{
		ID:      uint64(begun)<<22 | uint64(binary.BigEndian.Uint32(lot[:4])>>10), // as history.NewRunID makes one, but from the file
		Started: at, Finished: at, Host: hex.EncodeToString(host[:16]), Model: hex.EncodeToString(model[:16]),
		Target: recorded, Objective: head.objective(),
		Facts: map[string]string{"device_name": head.Device, "kernel_name": head.Kernel, "problem_size": head.ProblemSize},
	}
	if m.run.ID == 0 {
		m.run.ID = 1
	}
}

// digest hashes texts, each with its length.
func digest(texts ...string) [sha256.Size]byte {
	var all []byte
	for _, text := range texts {
		all = binary.AppendUvarint(all, uint64(len(text)))
		all = append(all, text...)
	}
	return sha256.Sum256(all)
}

// config is an entry's setting as a JSON object.
func (m *Import) config(e Entry) ([]byte, error) {
	var object bytes.Buffer
	for k, p := range m.rd.Header().Params {
		if !json.Valid([]byte(e.Values[k])) { // Python's NaN and Infinity
			return nil, fmt.Errorf("%s: %s: want a value that JSON knows", p.Name, e.Values[k])
		}
		if k > 0 {
			object.WriteByte(',')
		}
		object.WriteString(quote(p.Name) + ":" + e.Values[k])
	}
	return []byte("{" + object.String() + "}"), nil
}

// StatusOf is the status that a class of failures comes nearest to.
func StatusOf(class string) string {
	switch class {
	case "InvalidConfig", "CompilationFailedConfig":
		return history.StatusRejected
	case "CorrectnessFailedConfig":
		return history.StatusMismatch
	case "TimeoutFailedConfig":
		return history.StatusTimeout
	}
	return history.StatusCrash
}

// moment reads a timestamp as tuners write it; the zero time is unknown.
func moment(stamp string) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999"} {
		if t, err := time.Parse(layout, stamp); err == nil && t.Year() >= 1970 && t.Year() <= 2200 {
			return t.UTC()
		}
	}
	return time.Time{}
}
