package history

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
)

// leafScan reads every page of a bbolt file that looks like a leaf, whether anything points to it or not, with plain
// reads alone. It trusts nothing that it reads: what an element is worth, its checksum says.
type leafScan struct {
	file     *os.File
	pageSize int64
	pages    int64
	visit    func(key, value []byte) error
}

// scanLeaves calls visit for every key and value on the leaves of a damaged file, in no order and old versions too.
func scanLeaves(ctx context.Context, path string, visit func(key, value []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	size := int64(os.Getpagesize())
	if m, _, err := readMetas(file); err == nil {
		size = int64(m.pageSize)
	}
	l := leafScan{file, size, info.Size() / size, visit}
	for id := int64(2); id < l.pages; id++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := l.page(id); err != nil {
			return err
		}
	}
	return nil
}

// page reads the page of a number, if it is a leaf.
func (l leafScan) page(id int64) error {
	var header [pageHeaderBytes]byte
	if _, err := l.file.ReadAt(header[:], id*l.pageSize); err != nil {
		return nil
	}
	more := int64(binary.LittleEndian.Uint32(header[12:]))
	if binary.LittleEndian.Uint64(header[:]) != uint64(id) || binary.LittleEndian.Uint16(header[8:]) != flagLeaf {
		return nil
	}
	more = min(more, l.pages-1-id, 2*maxValueBytes/l.pageSize)
	page := make([]byte, (1+more)*l.pageSize)
	if _, err := l.file.ReadAt(page, id*l.pageSize); err != nil {
		return nil
	}
	return l.elements(page, true)
}

// elements visits the elements of a leaf. A small bucket lies in its element's value, as a leaf of its own, in which
// there are no further ones.
func (l leafScan) elements(page []byte, buckets bool) error {
	if len(page) < pageHeaderBytes || binary.LittleEndian.Uint16(page[8:]) != flagLeaf {
		return nil
	}
	count := int(binary.LittleEndian.Uint16(page[10:]))
	for at := pageHeaderBytes; count > 0 && at+elementBytes <= len(page); at, count = at+elementBytes, count-1 {
		n := func(i int) uint64 { return uint64(binary.LittleEndian.Uint32(page[at+4*i:])) }
		key := uint64(at) + n(1)
		value := key + n(2)
		end := value + n(3)
		if end > uint64(len(page)) {
			continue
		}
		var err error
		if n(0) != flagBucket {
			err = l.visit(page[key:value], page[value:end])
		} else if buckets && n(3) > bucketBytes {
			err = l.elements(page[value+bucketBytes:end], false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// salvaged puts intact values into a database that is being made.
type salvaged struct {
	db    *bolt.DB
	w     *writer
	state state
	batch int

	stored  uint64 // records in the damaged database by its own account
	newest  uint64 // the greatest generation that was met
	current uint64 // generation that belongs to the next count of records
}

// salvageBatch is how many values go into one transaction.
const salvageBatch = 10_000

// begin makes the buckets.
func (v *salvaged) begin() error {
	return v.db.Update(func(tx *bolt.Tx) error {
		w, err := newDatabase(tx)
		if err != nil {
			return err
		}
		v.state = w.state
		return v.state.write(tx)
	})
}

// from takes what is intact in a file.
func (v *salvaged) from(ctx context.Context, path string) error {
	err := scanLeaves(ctx, path, v.take)
	if flushed := v.flush(); err == nil {
		err = flushed
	}
	return err
}

// take puts one value where it belongs. What is no value of ours, or damaged, is passed over.
func (v *salvaged) take(key, value []byte) error {
	v.account(key, value)
	bucket := bucketOf(key, value)
	if bucket == nil {
		return nil
	}
	if v.w == nil {
		tx, err := v.db.Begin(true)
		if err != nil {
			return err
		}
		v.w = &writer{tx: tx, state: v.state}
	}
	if err := v.w.restore(bucket, bytes.Clone(key), bytes.Clone(value)); err != nil && !errors.Is(err, ErrConflict) {
		v.w.tx.Rollback()
		v.w = nil
		return err
	}
	if v.batch++; v.batch < salvageBatch {
		return nil
	}
	return v.flush()
}

// account reads what the file says of itself. The keys of one meta bucket come in order, generation before samples.
func (v *salvaged) account(key, value []byte) {
	if !bytes.Equal(key, metaGeneration) && !bytes.Equal(key, metaSamples) {
		return
	}
	payload, err := unseal(key, value, codecUint)
	if err != nil || len(payload) != 8 {
		return
	}
	n := binary.BigEndian.Uint64(payload)
	switch {
	case bytes.Equal(key, metaGeneration):
		v.current = n
	case v.current >= v.newest:
		v.newest, v.stored = v.current, n
	}
}

// flush commits what was taken.
func (v *salvaged) flush() error {
	if v.w == nil {
		return nil
	}
	w := v.w
	v.w, v.batch, v.state = nil, 0, w.state
	return w.tx.Commit()
}

// finish takes over the snapshot, which knows best what is current, drops the samples that are summed up already, and
// writes the state with a generation that nobody has seen.
func (v *salvaged) finish(snap *Snapshot, seen uint64) error {
	return v.db.Update(func(tx *bolt.Tx) error {
		w := &writer{tx: tx, state: v.state}
		if snap.Generation > 0 {
			if err := w.adopt(snap); err != nil {
				return err
			}
		}
		if err := w.dropCounted(); err != nil {
			return err
		}
		w.state.generation = max(v.newest, snap.Generation, seen) + 1
		w.state.configGeneration = w.state.generation
		v.state = w.state
		return w.state.write(tx)
	})
}

// bucketOf tells from an intact value which bucket it was in; nil for what is no value of ours.
func bucketOf(key, value []byte) []byte {
	if len(value) == 0 {
		return nil
	}
	candidates := [][]byte{bucketSample}
	if codec(value[0]) == codecJSON {
		candidates = [][]byte{bucketRun, bucketConfig, bucketPin, bucketAgg}
	}
	for _, bucket := range candidates {
		if verifyIn(bucket, key, value) == nil {
			return bucket
		}
	}
	return nil
}

// Repaired is what a repair kept and what it did not find.
type Repaired struct {
	Path    string `json:"path"`    // where the damaged database is now; "" if only the snapshot was written anew
	Records int    `json:"records"` // in the new one
	Stored  int    `json:"stored"`  // in the damaged one by its own account; 0 = unknown
	Lost    int    `json:"lost"`    // of those; at least
	Backup  int    `json:"backup"`  // records that only a backup had
	Runs    int    `json:"runs"`
	Learned int    `json:"learned"`
	Pins    int    `json:"pins"`
}

// String is the one line of a log.
func (r Repaired) String() string {
	if r.Path == "" {
		return "the snapshot was written anew"
	}
	lost := fmt.Sprintf("lost %d of %d", r.Lost, r.Stored)
	if r.Stored == 0 {
		lost = "how many there were is not known"
	}
	return fmt.Sprintf("moved to %s and made anew of what is intact: %d records (%s; %d only in a backup), %d runs, %d learned configs, %d pins",
		r.Path, r.Records, lost, r.Backup, r.Runs, r.Learned, r.Pins)
}
