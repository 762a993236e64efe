package history

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// Run is one tuning run: what was asked, on what host, and how it ended. It is put when the run starts and again when
// it ends; the last one counts.
type Run struct {
	ID          uint64            `json:"id,string"` // from NewRunID
	Started     time.Time         `json:"started,omitzero"`
	Finished    time.Time         `json:"finished,omitzero"` // the zero time: it still runs, or was cut short
	Host        string            `json:"host"`              // fingerprint, 32 hex digits
	Model       string            `json:"model"`             // fingerprint, 32 hex digits
	Target      string            `json:"target"`
	Objective   string            `json:"objective"`
	Strategy    string            `json:"strategy"`
	Seed        uint64            `json:"seed,string"`
	Budget      time.Duration     `json:"budget_ns"`
	Verdict     string            `json:"verdict,omitempty"`
	Facts       map[string]string `json:"facts,omitempty"` // identity, envelope and condition of the host
	Certificate json.RawMessage   `json:"certificate,omitempty"`
}

// runIDRandomBits is how much of a run id is drawn by lot: two runs in one millisecond get one id 1 time in 4 million.
const runIDRandomBits = 22

// NewRunID returns an id for a run that starts now: 42 bits of milliseconds since 1970 (good until 2109), then 22 bits
// by lot. Later runs have greater ids.
func NewRunID(now time.Time) uint64 {
	return uint64(now.UnixMilli())<<runIDRandomBits | rand.Uint64N(1<<runIDRandomBits)
}

// PutRun stores r in place of an earlier version of the same run. Where the store cannot be had in time it waits in the
// spool, as records do in Append.
func (s *Store) PutRun(ctx context.Context, r Run) error {
	if r.ID == 0 {
		return fmt.Errorf("history: put run: id is 0: want one from NewRunID")
	}
	key := binary.BigEndian.AppendUint64(nil, r.ID)
	value, err := sealJSON(key, r)
	if err != nil {
		return fmt.Errorf("history: put run %d: %w", r.ID, err)
	}
	_, err = s.commit(ctx, task{verb: fmt.Sprintf("put run %d", r.ID), slack: true}, func(w *writer) error { return w.put(bucketRun, key, value) })
	return s.orSpool(ctx, err, func() ([]spooled, error) { return []spooled{{bucketRun, pair{key, value}}}, nil })
}

// Runs returns all runs, oldest first. Damaged ones are left out; the error then wraps ErrCorrupt, and the others
// come along with it.
func (s *Store) Runs(ctx context.Context) ([]Run, error) {
	var runs []Run
	var damaged []error
	err := s.scan(ctx, bucketRun, nil, nil, func(key, value []byte) error {
		var r Run
		if err := unsealJSON(key, value, &r); err != nil {
			damaged = append(damaged, fmt.Errorf("run %x: %w", key, err))
			return nil
		}
		runs = append(runs, r)
		return nil
	})
	if err == nil && len(damaged) > 0 {
		err = fmt.Errorf("%d damaged, left out: %w", len(damaged), damaged[0])
	}
	if err != nil {
		return runs, fmt.Errorf("history: list runs of %s: %w", s.databasePath(), err)
	}
	return runs, nil
}
