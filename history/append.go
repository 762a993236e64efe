package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	berrors "go.etcd.io/bbolt/errors"
)

// Append stores records, all or none, and returns once they are on the disk. A record that is there already, equal in
// every field, is not stored again, so that a caller who does not know whether a call succeeded repeats it; one that
// differs from what is stored under its run, number and setting is ErrConflict.
//
// If another process keeps the store for longer than Options.Timeout or the deadline of ctx, the records go into the
// spool instead, from where the next writer takes them. That is success as well: they are on the disk, though Records
// does not see them yet.
func (s *Store) Append(ctx context.Context, recs ...Record) error {
	pairs, err := encodeAll("append", recs)
	if err != nil || len(pairs) == 0 {
		return err
	}
	_, err = s.addPairs(ctx, "append", pairs)
	return s.orSpool(ctx, err, func() ([]spooled, error) {
		list := make([]spooled, len(pairs))
		for i, p := range pairs {
			list[i] = spooled{bucketSample, p}
		}
		return list, nil
	})
}

func encodeAll(verb string, recs []Record) ([]pair, error) {
	pairs := make([]pair, len(recs))
	for i, r := range recs {
		var err error
		if pairs[i].key, pairs[i].value, err = r.encode(); err != nil {
			return nil, fmt.Errorf("history: %s: record %d (run %d seq %d): %w", verb, i, r.Run, r.Seq, err)
		}
	}
	return pairs, nil
}

// addPairs stores samples and returns how many were new. A database that has reached its size makes room first.
func (s *Store) addPairs(ctx context.Context, verb string, pairs []pair) (added int, err error) {
	var fresh int
	add := func(w *writer) (err error) {
		fresh, err = w.addSamples(pairs)
		return err
	}
	changed, err := s.commit(ctx, task{verb: verb}, add)
	for _, keep := range []int{DefaultPerCell, DefaultPerCell / 4, keptPerCell} {
		if !errors.Is(err, berrors.ErrMaxSizeReached) {
			break
		}
		if _, pruned := s.Prune(ctx, Retention{PerCell: keep}); pruned != nil {
			return 0, errors.Join(err, pruned)
		}
		changed, err = s.commit(ctx, task{verb: verb}, add)
	}
	if !changed || err != nil {
		return 0, err
	}
	return fresh, nil
}

// addSamples stores samples that are not there yet.
func (w *writer) addSamples(pairs []pair) (added int, err error) {
	b := w.tx.Bucket(bucketSample)
	for _, p := range pairs {
		old := b.Get(p.key)
		if old != nil && !bytes.Equal(old, p.value) {
			k, _ := parseSampleKey(p.key)
			return 0, fmt.Errorf("run %d seq %d: %w", k.run, k.seq, ErrConflict)
		}
		if old != nil {
			continue
		}
		if err := w.put(bucketSample, p.key, p.value); err != nil {
			return 0, err
		}
		added++
	}
	w.state.samples += uint64(added)
	return added, nil
}

// Filter says which records are wanted. Empty fields and a zero Run match everything. Host, Model, Target and Regime
// are read by key prefix as far as they are given in this order; the rest is compared record by record.
type Filter struct {
	Host, Model    string // fingerprints, 32 hex digits
	Target, Regime string
	Run            uint64
}

// prefix is the longest key prefix that all matching records have.
func (f Filter) prefix() (prefix []byte, err error) {
	if f.Model != "" {
		if _, err := appendFingerprint(nil, "model", f.Model); err != nil {
			return nil, err
		}
	}
	if f.Host == "" {
		return nil, nil
	}
	if prefix, err = appendFingerprint(nil, "host", f.Host); err != nil || f.Model == "" {
		return prefix, err
	}
	if prefix, err = appendFingerprint(prefix, "model", f.Model); err != nil || f.Target == "" {
		return prefix, err
	}
	if prefix, err = appendName(prefix, "target", f.Target); err != nil || f.Regime == "" {
		return prefix, err
	}
	return appendName(prefix, "regime", f.Regime)
}

// matches reports whether a sample's key is wanted. A key that cannot be read is: it is damage to be told of.
func (f Filter) matches(key []byte) bool {
	k, err := parseSampleKey(key)
	return err != nil || f.matchesNames(k.host, k.model, k.target, k.regime) && (f.Run == 0 || f.Run == k.run)
}

func (f Filter) matchesNames(host, model, target, regime string) bool {
	return (f.Host == "" || f.Host == host) && (f.Model == "" || f.Model == model) &&
		(f.Target == "" || f.Target == target) && (f.Regime == "" || f.Regime == regime)
}

// Records calls fn for every record that f matches, ordered by host, model, target, regime, setting, run and number.
// It holds no lock while fn runs, so fn may use the store. An error of fn ends it and is returned as it is. Damaged
// records are left out: the error, which wraps ErrCorrupt, then comes after all others were delivered.
func (s *Store) Records(ctx context.Context, f Filter, fn func(Record) error) error {
	prefix, err := f.prefix()
	if err != nil {
		return fmt.Errorf("history: read records: filter: %w", err)
	}
	keep := f.matches
	if f.Host != "" && f.Model != "" && f.Target != "" && f.Regime != "" && f.Run == 0 {
		keep = nil // the prefix says it all
	}
	var damaged []error
	var stop error
	var d decoder
	err = s.scan(ctx, bucketSample, prefix, keep, func(key, value []byte) error {
		r, err := d.decode(key, value)
		if err != nil {
			damaged = append(damaged, err)
			return nil
		}
		stop = fn(r)
		return stop
	})
	switch {
	case stop != nil && errors.Is(err, stop):
		return stop
	case err != nil:
		return fmt.Errorf("history: read records of %s: %w", s.databasePath(), err)
	case len(damaged) > 0:
		return fmt.Errorf("history: read records of %s: %d left out, the first: %w", s.databasePath(), len(damaged), damaged[0])
	}
	return nil
}
