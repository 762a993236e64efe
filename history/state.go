package history

import (
	"encoding/binary"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
)

// state is what the meta bucket says.
type state struct {
	schema, minReader uint64 // Format
	generation        uint64 // raised by every transaction that changes something
	configGeneration  uint64 // the generation of the last change to what the snapshot holds
	samples           uint64 // records in the bucket sample
	created           uint64 // ns since 1970
}

func newState(now time.Time) state {
	return state{schema: uint64(FormatNewest), minReader: uint64(FormatOldestReader), created: uint64(unixNano(now))}
}

// readable reports whether this build understands what is there, writable whether it may add to it.
func (st state) readable() bool { return st.minReader <= uint64(FormatNewest) }
func (st state) writable() bool { return st.schema <= uint64(FormatNewest) }

// buckets are those of the database's version.
func (st state) buckets() [][]byte {
	if st.schema < uint64(FormatV2) {
		return buckets[:len(buckets)-1] // without agg
	}
	return buckets
}

// newer is the error of a format that this build does not know.
func newer(format uint64) error {
	return fmt.Errorf("format %d is %w than %d: update this program", format, ErrNewer, FormatNewest)
}

// readState reads the meta bucket, and recognises a database of another program.
func readState(tx *bolt.Tx) (st state, err error) {
	b := tx.Bucket(bucketMeta)
	if b == nil || b.Get(metaMagic) == nil {
		if tx.Bucket(bucketSample) != nil || tx.Bucket(bucketConfig) != nil {
			return st, fmt.Errorf("%w: meta %s is missing", ErrCorrupt, metaMagic)
		}
		return st, fmt.Errorf("%w but another program's bbolt database: choose another directory", ErrForeign)
	}
	text, err := unseal(metaMagic, b.Get(metaMagic), codecText)
	if err != nil {
		return st, fmt.Errorf("meta %s: %w", metaMagic, err)
	}
	if string(text) != magic {
		return st, fmt.Errorf("%w but a database of %q: choose another directory", ErrForeign, text)
	}
	for _, f := range st.fields() {
		payload, err := unseal(f.key, b.Get(f.key), codecUint)
		if err != nil {
			return st, fmt.Errorf("meta %s: %w", f.key, err)
		}
		if len(payload) != 8 {
			return st, fmt.Errorf("meta %s: %w: %d bytes where 8 belong", f.key, ErrCorrupt, len(payload))
		}
		*f.value = binary.BigEndian.Uint64(payload)
	}
	return st, nil
}

// write puts st into the meta bucket.
func (st state) write(tx *bolt.Tx) error {
	b := tx.Bucket(bucketMeta)
	if err := b.Put(metaMagic, seal(metaMagic, codecText, []byte(magic))); err != nil {
		return err
	}
	for _, f := range st.fields() {
		if err := b.Put(f.key, seal(f.key, codecUint, binary.BigEndian.AppendUint64(nil, *f.value))); err != nil {
			return err
		}
	}
	return nil
}

// stateField is a number of the meta bucket.
type stateField struct {
	key   []byte
	value *uint64
}

// fields lists the numbers of st under their keys.
func (st *state) fields() []stateField {
	return []stateField{
		{metaSchema, &st.schema}, {metaMinReader, &st.minReader}, {metaCreated, &st.created},
		{metaGeneration, &st.generation}, {metaConfigGeneration, &st.configGeneration}, {metaSamples, &st.samples},
	}
}
