package fleet

import (
	"crypto/sha256"
	"encoding/hex"
)

func checksum(doc []byte) string {
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:])
}
