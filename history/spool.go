package history

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The spool holds what processes wanted to write while they could not get the lock: one file for each call, complete
// once it has its name and never changed. Whoever writes next stores what is in it and then removes it. Everything in
// it may be stored any number of times, so one that dies in between does no harm.

// spooled is a value that waits to be stored in a bucket.
type spooled struct {
	bucket []byte
	pair
}

// The spool file; FORMAT.md has the diagram.
const (
	spoolMagic       = "BNASPL\r\n"
	spoolHeaderBytes = 8 + 4
	spoolSuffix      = ".spool"
)

// spoolKinds are the buckets by the byte that stands for them in the spool. Numbers are never reused.
var spoolKinds = map[byte][]byte{1: bucketSample, 2: bucketRun, 3: bucketConfig}

// drainBytes and drainFiles bound what one call takes from the spool, so that it stays a matter of milliseconds.
const (
	drainBytes = 4 << 20
	drainFiles = 256
)

// abandonedAfter is the age at which a file being made has no maker any more: making one takes milliseconds.
const abandonedAfter = time.Hour

// orSpool puts what could not be stored into the spool if err says that the store could not be had in time. It returns
// err where there is nothing to spool for, or the spool does not take it.
func (s *Store) orSpool(ctx context.Context, err error, list func() ([]spooled, error)) error {
	if !errors.Is(err, ErrBusy) && !errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	waiting, bad := list()
	if bad != nil {
		return errors.Join(err, bad)
	}
	if failed := s.spool(waiting); failed != nil {
		return fmt.Errorf("%w; and it does not fit the spool: %w", err, failed)
	}
	s.warn(fmt.Errorf("%w; it waits in %s for the next writer", err, filepath.Join(s.dir, spoolName)))
	return nil
}

// spool writes a spool file.
func (s *Store) spool(list []spooled) error {
	content := encodeSpool(list)
	dir := filepath.Join(s.dir, spoolName)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if used := dirBytes(dir); used+len(content) > s.opt.MaxBytes {
		return fmt.Errorf("%d bytes wait there already: want at most %d", used, s.opt.MaxBytes)
	}
	path := filepath.Join(dir, fmt.Sprintf("%016x-%016x%s", time.Now().UnixNano(), rand.Uint64(), spoolSuffix))
	if err := writeSynced(path+newSuffix, content); err != nil {
		os.Remove(path + newSuffix)
		return err
	}
	if err := renameDurably(path+newSuffix, path); err != nil {
		return err
	}
	return syncDir(s.dir) // the spool itself may be new
}

// dirBytes is the size of all files in a directory.
func dirBytes(dir string) (sum int) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			sum += int(info.Size())
		}
	}
	return sum
}

func encodeSpool(list []spooled) []byte {
	b := append([]byte{}, spoolMagic...)
	b = binary.BigEndian.AppendUint32(b, uint32(FormatNewest))
	for _, e := range list {
		for kind, bucket := range spoolKinds {
			if bytes.Equal(bucket, e.bucket) {
				b = append(b, kind)
			}
		}
		b = binary.BigEndian.AppendUint16(b, uint16(len(e.key)))
		b = binary.BigEndian.AppendUint32(b, uint32(len(e.value)))
		b = append(append(b, e.key...), e.value...)
	}
	return b
}

// decodeSpool is the inverse of encodeSpool. With an error the entries before the damage come along.
func decodeSpool(b []byte) (list []spooled, err error) {
	if len(b) < spoolHeaderBytes || string(b[:8]) != spoolMagic {
		return nil, fmt.Errorf("%w: %d bytes that do not begin with its magic", ErrCorrupt, len(b))
	}
	if format := binary.BigEndian.Uint32(b[8:]); format > uint32(FormatNewest) {
		return nil, newer(uint64(format))
	}
	const header = 1 + 2 + 4
	for rest := b[spoolHeaderBytes:]; len(rest) > 0; {
		if len(rest) < header {
			return list, fmt.Errorf("%w: an entry was cut short", ErrCorrupt)
		}
		bucket, known := spoolKinds[rest[0]]
		ksize, vsize := int(binary.BigEndian.Uint16(rest[1:])), int(binary.BigEndian.Uint32(rest[3:]))
		if rest = rest[header:]; !known || ksize > maxKeyBytes || vsize > maxValueBytes || ksize+vsize > len(rest) {
			return list, fmt.Errorf("%w: an entry of %d and %d bytes does not fit", ErrCorrupt, ksize, vsize)
		}
		e := spooled{bucket, pair{rest[:ksize], rest[ksize : ksize+vsize]}}
		if err := verifyIn(e.bucket, e.key, e.value); err != nil {
			return list, err
		}
		list, rest = append(list, e), rest[ksize+vsize:]
	}
	return list, nil
}

// drain stores what waits in the spool, as much as one call may, and removes it. What cannot be stored stays, or goes
// to quarantine if it is damaged; that keeps nobody from anything else. The caller holds the lock.
func (s *Store) drain(ctx context.Context) {
	dir := filepath.Join(s.dir, spoolName)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		return
	}
	var list []spooled
	var done []string
	bad := map[string]error{}
	size := 0
	for _, entry := range entries { // by name, so the oldest first
		path := filepath.Join(dir, entry.Name())
		if !strings.HasSuffix(path, spoolSuffix) {
			removeAbandoned(path)
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			s.warn(fmt.Errorf("history: spool: %w", err))
			continue
		}
		if size += len(content); len(done) > 0 && (size > drainBytes || len(done) == drainFiles) {
			break
		}
		more, err := decodeSpool(content)
		if errors.Is(err, ErrNewer) {
			continue // for the version that wrote it
		}
		if err != nil {
			bad[path] = err
		}
		list, done = append(list, more...), append(done, path)
	}
	if len(done) > 0 {
		s.takeSpooled(ctx, list, done, bad)
	}
}

// takeSpooled stores a list and removes the files that it is from.
func (s *Store) takeSpooled(ctx context.Context, list []spooled, done []string, bad map[string]error) {
	var stored, refused int
	configs := false
	_, err := s.transact(ctx, func(w *writer) error {
		stored, refused = 0, 0
		for _, e := range list {
			switch err := w.restore(e.bucket, e.key, e.value); {
			case errors.Is(err, ErrConflict):
				refused++
			case err != nil:
				return err
			default:
				stored++
			}
		}
		configs = w.state.configGeneration > w.found.generation
		return nil
	})
	if err != nil {
		s.warn(fmt.Errorf("history: spool: %d entries stay in it: %w", len(list), err))
		return
	}
	if configs {
		if err := s.publish(ctx); err != nil {
			s.warn(fmt.Errorf("history: %s: %w", snapshotName, err))
		}
	}
	for _, path := range done {
		if cause := bad[path]; cause != nil {
			s.warn(fmt.Errorf("history: spool: %s goes to quarantine: %w", filepath.Base(path), cause))
			err = s.putAside(path)
		} else {
			err = os.Remove(path)
		}
		if err != nil {
			s.warn(fmt.Errorf("history: spool: %w", err))
		}
	}
	text := fmt.Sprintf("history: took %d entries of %d files from the spool", stored, len(done))
	if refused > 0 {
		text += fmt.Sprintf("; left out %d where other content was stored meanwhile", refused)
	}
	s.warn(errors.New(text))
}

// removeAbandoned removes a file that a process was making when it was killed.
func removeAbandoned(path string) {
	if info, err := os.Stat(path); err == nil && strings.HasSuffix(path, newSuffix) && time.Since(info.ModTime()) > abandonedAfter {
		os.Remove(path)
	}
}

// restore stores an intact value that was stored or spooled before, unless what is there is as good or better. A
// different record under the same key is ErrConflict.
func (w *writer) restore(bucket, key, value []byte) error {
	switch {
	case bytes.Equal(bucket, bucketSample):
		_, err := w.addSamples([]pair{{key, value}})
		return err
	case bytes.Equal(bucket, bucketRun):
		return w.restoreRun(key, value)
	case bytes.Equal(bucket, bucketConfig):
		return w.restoreLearned(key, value)
	case bytes.Equal(bucket, bucketPin):
		return w.restorePin(key, value)
	}
	return w.restoreAggregate(key, value)
}

// restoreRun stores a run unless one with its end is there.
func (w *writer) restoreRun(key, value []byte) error {
	var there Run
	if old := w.tx.Bucket(bucketRun).Get(key); old != nil && unsealJSON(key, old, &there) == nil && !there.Finished.IsZero() {
		return nil
	}
	return w.put(bucketRun, key, value)
}

// restoreLearned stores a learned config unless one as new is there; it is then kept as the previous version if there is
// no other.
func (w *writer) restoreLearned(key, value []byte) error {
	var l, there Learned
	if err := unsealJSON(key, value, &l); err != nil {
		return err
	}
	own, err := l.key()
	if err != nil {
		return err
	}
	current, previous := append(slices.Clone(own), slotCurrent), append(slices.Clone(own), slotPrevious)
	old := w.tx.Bucket(bucketConfig).Get(current)
	if old == nil || unsealJSON(current, old, &there) != nil || l.MeasuredAt.After(there.MeasuredAt) {
		return w.putLearned(own, l)
	}
	payload, err := unseal(key, value, codecJSON)
	if err != nil {
		return err
	}
	if bytes.Equal(seal(current, codecJSON, payload), old) || w.tx.Bucket(bucketConfig).Get(previous) != nil {
		return nil
	}
	return w.put(bucketConfig, previous, seal(previous, codecJSON, payload))
}

// restorePin stores a pin unless one as new is there.
func (w *writer) restorePin(key, value []byte) error {
	var p, there Pin
	if err := unsealJSON(key, value, &p); err != nil {
		return err
	}
	if old := w.tx.Bucket(bucketPin).Get(key); old != nil && unsealJSON(key, old, &there) == nil && !p.At.After(there.At) {
		return nil
	}
	return w.putPin(p)
}
