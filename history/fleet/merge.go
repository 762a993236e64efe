package fleet

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/history"
)

// merge is what two entries of one key make together: the config with more evidence, and the contributors of both.
// It takes the greater of two in a total order and the union of two sets, so it commutes, associates, and changes
// nothing when it is repeated: hosts that push in any order, or twice, come to the same entry.
func merge(a, b Entry) Entry {
	best := a
	if compareEvidence(a, b) < 0 {
		best = b
	}
	best.Contributors = union(a.Contributors, b.Contributors)
	best.Generation = max(a.Generation, b.Generation)
	return best
}

// compareEvidence orders by what stands behind an entry: blocks of regimes that were decided, then arms evaluated. Equal
// evidence is settled by the gain that is proven, then by age, and then by what is merely the same for everybody.
func compareEvidence(a, b Entry) int {
	return cmp.Or(
		cmp.Compare(a.Blocks, b.Blocks),
		cmp.Compare(a.Evaluations, b.Evaluations),
		cmp.Compare(a.Ratio.Low, b.Ratio.Low),
		a.MeasuredAt.Compare(b.MeasuredAt),
		bytes.Compare(a.Config, b.Config),
		bytes.Compare(a.body(), b.body()),
	)
}

// body is an entry without what a merge makes of it.
func (e Entry) body() []byte {
	e.Contributors, e.Generation = nil, 0
	doc, err := history.Marshal(e)
	if err != nil {
		panic("fleet: an entry that was not validated")
	}
	return doc
}

// same reports whether storing a in place of b would change nothing.
func same(a, b Entry) bool {
	return bytes.Equal(a.body(), b.body()) && slices.Equal(a.Contributors, b.Contributors)
}

// maxContributors bounds an entry. Who was beyond it when two sets met is forgotten: the first of the union in order
// are the same whichever way it came about.
const maxContributors = 32

var contributor = regexp.MustCompile(`^[0-9a-f]{16}$`)

// mark is what a host is counted under. It cannot be turned back into what was hashed.
func mark(secret string) string {
	h := hmac.New(sha256.New, []byte("bitnet-autotune fleet contributor"))
	h.Write([]byte(secret))
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), maxContributors)]
}

func validContributors(list []string) error {
	if len(list) > maxContributors {
		return fmt.Errorf("%d contributors: want at most %d", len(list), maxContributors)
	}
	for i, c := range list {
		if !contributor.MatchString(c) || (i > 0 && list[i-1] >= c) {
			return fmt.Errorf("contributor %.80q: want 16 hex digits each, in order", c)
		}
	}
	return nil
}
