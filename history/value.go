package history

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
)

// maxValueBytes bounds a value, so that a damaged length never becomes a huge allocation.
const maxValueBytes = 1 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal is codec byte | payload | CRC32C(key, codec, payload), the checksum big-endian.
func seal(key []byte, c codec, payload []byte) []byte {
	value := make([]byte, 0, 1+len(payload)+crc32.Size)
	value = append(value, byte(c))
	value = append(value, payload...)
	return binary.BigEndian.AppendUint32(value, checksum(key, value))
}

// unseal returns the payload of a sealed value, which must be of codec want.
func unseal(key, value []byte, want codec) ([]byte, error) {
	if len(value) < 1+crc32.Size {
		return nil, fmt.Errorf("%w: value of %d bytes", ErrCorrupt, len(value))
	}
	body, sum := value[:len(value)-crc32.Size], binary.BigEndian.Uint32(value[len(value)-crc32.Size:])
	if checksum(key, body) != sum {
		return nil, fmt.Errorf("%w: checksum differs", ErrCorrupt)
	}
	if codec(body[0]) != want {
		return nil, fmt.Errorf("%w: codec %d where %d belongs", ErrCorrupt, body[0], want)
	}
	return body[1:], nil
}

func checksum(key, body []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, key), castagnoli, body)
}

// sealJSON seals v as JSON.
func sealJSON(key []byte, v any) ([]byte, error) {
	payload, err := Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(payload) > maxValueBytes/2 {
		return nil, fmt.Errorf("%d bytes of JSON: want at most %d", len(payload), maxValueBytes/2)
	}
	return seal(key, codecJSON, payload), nil
}

// unsealJSON is the inverse of sealJSON.
func unsealJSON(key, value []byte, v any) error {
	payload, err := unseal(key, value, codecJSON)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(payload, v); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}
