package history

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// A sample's key is host 16 | model 16 | target NUL | regime NUL | config id 8 | run 8 | seq 4, numbers big-endian:
// a prefix of any length answers a question, and a retry meets its own key.

const (
	fingerprintBytes = 16
	sampleTailBytes  = 8 + 8 + 4
	maxNameBytes     = 64
)

// maxKeyBytes is more than the longest key that is ever written.
const maxKeyBytes = 2*fingerprintBytes + 2*(maxNameBytes+1) + 64

// appendFingerprint appends the 16 bytes that s spells in hex digits.
func appendFingerprint(key []byte, field, s string) ([]byte, error) {
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != fingerprintBytes || s != strings.ToLower(s) {
		return nil, fmt.Errorf("%s %q: want %d lower-case hex digits", field, s, 2*fingerprintBytes)
	}
	return append(key, raw...), nil
}

// appendName appends s and a NUL.
func appendName(key []byte, field, s string) ([]byte, error) {
	if s == "" || len(s) > maxNameBytes || strings.IndexByte(s, 0) >= 0 {
		return nil, fmt.Errorf("%s %q: want 1 to %d bytes without NUL", field, s, maxNameBytes)
	}
	return append(append(key, s...), 0), nil
}

// appendPlace appends host, model and two names.
func appendPlace(key []byte, host, model, field1, name1, field2, name2 string) ([]byte, error) {
	key, err := appendFingerprint(key, "host", host)
	if err != nil {
		return nil, err
	}
	if key, err = appendFingerprint(key, "model", model); err != nil {
		return nil, err
	}
	if key, err = appendName(key, field1, name1); err != nil {
		return nil, err
	}
	return appendName(key, field2, name2)
}

// sampleKey is the key of a sample.
type sampleKey struct {
	host, model    string // hex digits
	target, regime string
	config, run    uint64
	seq            uint32
}

// encode returns the bytes of k.
func (k sampleKey) encode() ([]byte, error) {
	key, err := appendPlace(make([]byte, 0, maxKeyBytes), k.host, k.model, "target", k.target, "regime", k.regime)
	if err != nil {
		return nil, err
	}
	key = binary.BigEndian.AppendUint64(key, k.config)
	key = binary.BigEndian.AppendUint64(key, k.run)
	return binary.BigEndian.AppendUint32(key, k.seq), nil
}

// parseSampleKey is the inverse of encode.
func parseSampleKey(key []byte) (sampleKey, error) {
	if len(key) < 2*fingerprintBytes+sampleTailBytes {
		return sampleKey{}, noSample(key)
	}
	names, tail := key[2*fingerprintBytes:len(key)-sampleTailBytes], key[len(key)-sampleTailBytes:]
	target, rest, ok := bytes.Cut(names, []byte{0})
	if !ok || len(rest) == 0 || bytes.IndexByte(rest, 0) != len(rest)-1 {
		return sampleKey{}, noSample(key)
	}
	k := sampleKey{
		host:   hex.EncodeToString(key[:fingerprintBytes]),
		model:  hex.EncodeToString(key[fingerprintBytes : 2*fingerprintBytes]),
		target: string(target),
		regime: string(rest[:len(rest)-1]),
	}
	k.parseTail(tail)
	return k, nil
}

// parseTail reads the numbers at the end of a key.
func (k *sampleKey) parseTail(tail []byte) {
	k.config = binary.BigEndian.Uint64(tail)
	k.run = binary.BigEndian.Uint64(tail[8:])
	k.seq = binary.BigEndian.Uint32(tail[16:])
}

func noSample(key []byte) error { return fmt.Errorf("%w: key %x is no sample's", ErrCorrupt, key) }
