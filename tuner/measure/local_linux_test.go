package measure

import "testing"

// TestLocalReadsThisMachine: every Linux has /proc/stat, and its counters never fall.
func TestLocalReadsThisMachine(t *testing.T) {
	watch := Local()
	before, err := watch.Read()
	if err != nil {
		t.Fatal(err)
	}
	after, err := watch.Read()
	if err != nil {
		t.Fatal(err)
	}
	if after.At <= before.At || after.Steal < before.Steal || after.Throttled < before.Throttled || after.ThrottledTime < before.ThrottledTime {
		t.Errorf("counters fell: %+v, then %+v", before, after)
	}
	if before.StealTick <= 0 {
		t.Errorf("steal has no resolution: %+v", before)
	}
}
