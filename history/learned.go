package history

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sort"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Learned is the result of a run: the best configuration of one model on one host, and what it takes to trust it.
// Its key is (Host, Model, Target, Objective, Signature, Envelope): publishing replaces what has the same key and
// keeps everything else.
type Learned struct {
	Host      string `json:"host"`  // fingerprint, 32 hex digits
	Model     string `json:"model"` // fingerprint, 32 hex digits
	ModelName string `json:"model_name,omitempty"`
	Target    string `json:"target"`
	Objective string `json:"objective"`
	Signature string `json:"signature,omitempty"` // of the kernel table it was learned with

	Identity  map[string]string `json:"identity,omitempty"`  // what makes the host what it is
	Envelope  map[string]string `json:"envelope,omitempty"`  // limits set from outside: quota, cpuset, memory
	Condition map[string]string `json:"condition,omitempty"` // what differs from hour to hour: governor, load

	Config      json.RawMessage `json:"config"`
	Certificate json.RawMessage `json:"certificate,omitempty"`
	Curve       json.RawMessage `json:"curve,omitempty"` // what derived plans need; opaque here
	Run         uint64          `json:"run,string"`
	MeasuredAt  time.Time       `json:"measured_at,omitzero"`
	Evaluations int             `json:"evaluations"`
}

// The last byte of a config's key.
const (
	slotCurrent  = 0
	slotPrevious = 1
)

// key is host 16 | model 16 | target NUL | objective NUL | signature 8 | envelope 8, without the slot.
func (l Learned) key() ([]byte, error) {
	key, err := appendPlace(nil, l.Host, l.Model, "target", l.Target, "objective", l.Objective)
	if err != nil {
		return nil, err
	}
	envelope, err := Marshal(l.Envelope) // sorts the keys
	if err != nil {
		return nil, err
	}
	if len(l.Envelope) == 0 {
		envelope = nil
	}
	key = binary.BigEndian.AppendUint64(key, hash64([]byte(l.Signature)))
	return binary.BigEndian.AppendUint64(key, hash64(envelope)), nil
}

// Pin is a configuration that a person has set for a model, above everything learned, or single knobs of it.
type Pin struct {
	Model  string          `json:"model"`  // as in Learned.Model
	Config json.RawMessage `json:"config"` // null where only knobs are pinned
	Knobs  []PinnedKnob    `json:"knobs,omitempty"`
	By     string          `json:"by,omitempty"`
	At     time.Time       `json:"at,omitzero"`
}

// PinnedKnob is one knob that a person has set.
type PinnedKnob struct {
	Target string    `json:"target"` // as in Learned.Target
	Knob   string    `json:"knob"`
	Value  string    `json:"value"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at,omitzero"`
}

// Publish stores l in the database, keeps the version that it replaces beside it, and writes the snapshot that readers
// load. If only the snapshot could not be written, the error says so; the next Open or Publish writes it. Where the
// store cannot be had in time l waits in the spool, as records do in Append, and readers see it once the next writer
// has taken it from there.
func (s *Store) Publish(ctx context.Context, l Learned) error {
	key, err := l.key()
	if err == nil && !json.Valid(l.Config) {
		err = fmt.Errorf("config %.40q: want JSON", l.Config)
	}
	if err != nil {
		return fmt.Errorf("history: publish: %w", err)
	}
	_, err = s.commit(ctx, task{verb: "publish", publish: true, slack: true}, func(w *writer) error { return w.putLearned(key, l) })
	return s.orSpool(ctx, err, func() ([]spooled, error) {
		current := append(key, slotCurrent)
		value, err := sealJSON(current, l)
		return []spooled{{bucketConfig, pair{current, value}}}, err
	})
}

// putLearned stores l and moves the version that it replaces, if it differs, to the slot beside.
func (w *writer) putLearned(key []byte, l Learned) error {
	current, previous := append(bytes.Clone(key), slotCurrent), append(bytes.Clone(key), slotPrevious)
	value, err := sealJSON(current, l)
	if err != nil {
		return err
	}
	old := bytes.Clone(w.tx.Bucket(bucketConfig).Get(current))
	if bytes.Equal(old, value) {
		return nil
	}
	if payload, err := unseal(current, old, codecJSON); err == nil { // one that is damaged is not worth keeping
		if err := w.put(bucketConfig, previous, seal(previous, codecJSON, payload)); err != nil {
			return err
		}
	}
	w.state.configGeneration = w.state.generation + 1
	return w.put(bucketConfig, current, value)
}

// SetPin stores p in place of an earlier pin of its model and writes the snapshot.
func (s *Store) SetPin(ctx context.Context, p Pin) error {
	if p.Model == "" || len(p.Model) > maxNameBytes || !json.Valid(p.Config) {
		return fmt.Errorf("history: pin model %q: want a name of 1 to %d bytes and a config in JSON", p.Model, maxNameBytes)
	}
	_, err := s.commit(ctx, task{verb: "pin", publish: true, slack: true}, func(w *writer) error { return w.putPin(p) })
	return err
}

// ChangePin changes the knobs that are pinned for a model, in one step, and writes the snapshot. A pin of a whole config is
// replaced; one that is left without knobs is removed.
func (s *Store) ChangePin(ctx context.Context, model string, change func(*Pin) error) error {
	if model == "" || len(model) > maxNameBytes {
		return fmt.Errorf("history: pin model %q: want a name of 1 to %d bytes", model, maxNameBytes)
	}
	_, err := s.commit(ctx, task{verb: "pin", publish: true, slack: true}, func(w *writer) error {
		var p Pin
		key := []byte(model)
		if old := w.tx.Bucket(bucketPin).Get(key); old != nil {
			if err := unsealJSON(key, old, &p); err != nil {
				return err
			}
		}
		p.Model, p.Config = model, json.RawMessage("null")
		if err := change(&p); err != nil {
			return err
		}
		if len(p.Knobs) == 0 {
			return w.dropPins(func(pinned string) bool { return pinned == model })
		}
		return w.putPin(p)
	})
	return err
}

func (w *writer) putPin(p Pin) error {
	key := []byte(p.Model)
	value, err := sealJSON(key, p)
	if err != nil {
		return err
	}
	w.state.configGeneration = w.state.generation + 1
	return w.put(bucketPin, key, value)
}

// RemovePin removes the pin of a model, writes the snapshot, and reports whether there was one.
func (s *Store) RemovePin(ctx context.Context, model string) (bool, error) {
	var was bool
	_, err := s.commit(ctx, task{verb: "unpin", publish: true, slack: true}, func(w *writer) error {
		was = w.tx.Bucket(bucketPin).Get([]byte(model)) != nil
		return w.dropPins(func(pinned string) bool { return pinned == model })
	})
	return err == nil && was, err
}

// adopt takes over a snapshot that is newer than the database, which was made anew or rolled back: what it holds was
// once stored.
func (w *writer) adopt(snap *Snapshot) error {
	for _, l := range snap.Learned {
		key, err := l.key()
		if err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
		if err := w.putLearned(key, l); err != nil {
			return err
		}
	}
	pinned := map[string]bool{}
	for _, p := range snap.Pins {
		pinned[p.Model] = true
		if err := w.putPin(p); err != nil {
			return err
		}
	}
	if err := w.dropPins(func(model string) bool { return !pinned[model] }); err != nil {
		return err
	}
	w.state.generation = max(w.state.generation, snap.Generation)
	w.state.configGeneration = snap.Generation
	return nil
}

// dropPins removes the pins of the models for which drop is true.
func (w *writer) dropPins(drop func(model string) bool) error {
	var models [][]byte
	b := w.tx.Bucket(bucketPin)
	if err := b.ForEach(func(k, _ []byte) error {
		if drop(string(k)) {
			models = append(models, bytes.Clone(k))
		}
		return nil
	}); err != nil {
		return err
	}
	for _, model := range models {
		w.changed, w.state.configGeneration = true, w.state.generation+1
		if err := b.Delete(model); err != nil {
			return err
		}
	}
	return nil
}

// publish writes the snapshot from the database, unless it is as new. The caller holds the lock.
func (s *Store) publish(ctx context.Context) error {
	have, err := keptSnapshot(s.dir)
	if err != nil {
		return unpublished(err)
	}
	var snap *Snapshot
	err = s.view(ctx, func(tx *bolt.Tx, st state) (err error) {
		if have.Generation < st.configGeneration {
			snap, err = collect(tx, st)
		}
		return err
	})
	if err != nil || snap == nil {
		return err
	}
	return unpublished(writeSnapshot(s.dir, snap))
}

// unpublished says of an error that it kept only the snapshot from being written.
func unpublished(err error) error {
	if err != nil {
		return fmt.Errorf("stored, but the snapshot was not written: %w", err)
	}
	return nil
}

// collect reads what a snapshot holds. Damaged entries are left out, so that they do not keep the others from readers.
func collect(tx *bolt.Tx, st state) (*Snapshot, error) {
	snap := &Snapshot{Generation: st.generation, Learned: []Learned{}, Pins: []Pin{}}
	err := tx.Bucket(bucketConfig).ForEach(func(k, v []byte) error {
		var l Learned
		if len(k) > 0 && k[len(k)-1] == slotCurrent && unsealJSON(k, v, &l) == nil {
			snap.Learned = append(snap.Learned, l)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	sort.SliceStable(snap.Learned, func(i, j int) bool { return before(snap.Learned[i], snap.Learned[j]) })
	return snap, tx.Bucket(bucketPin).ForEach(func(k, v []byte) error {
		var p Pin
		if unsealJSON(k, v, &p) == nil {
			snap.Pins = append(snap.Pins, p)
		}
		return nil
	})
}

// before orders by host, model, target and objective, and the newest first among equals.
func before(a, b Learned) bool {
	for _, pair := range [][2]string{{a.Host, b.Host}, {a.Model, b.Model}, {a.Target, b.Target}, {a.Objective, b.Objective}} {
		if pair[0] != pair[1] {
			return pair[0] < pair[1]
		}
	}
	return a.MeasuredAt.After(b.MeasuredAt)
}
