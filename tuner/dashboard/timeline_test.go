package dashboard

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

// What is published is of this host and this model, and a pin of knobs says which.
func TestTimelineOfASharedStore(t *testing.T) {
	m, err := model.Load(anyModel)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1000, 0).UTC()
	backBy := func(by string) json.RawMessage {
		data, err := json.Marshal(tuner.Certificate{RolledBack: &tuner.RolledBack{By: by, Why: "slow", At: at}})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	snapshot := &history.Snapshot{
		Pins: []history.Pin{{Model: m.Fingerprint(), By: "ada", At: at, Knobs: []history.PinnedKnob{{Target: "cpu", Knob: "layout", Value: "i2s"}, {Target: "cpu", Knob: "decode.threads", Value: "3"}}}},
		Learned: []history.Learned{
			{Host: "this", Model: m.Fingerprint(), Target: "cpu", Certificate: backBy("ada")},
			{Host: "other", Model: m.Fingerprint(), Target: "cpu", Certificate: backBy("bob")},
			{Host: "this with a card", Model: m.Fingerprint(), Target: "cuda", Certificate: backBy("eve")},
			{Host: "this", Model: "another", Target: "cpu", Certificate: backBy("dan")},
		},
	}
	var got []entry
	(&archive{host: "this", model: m}).addPublished(snapshot, tuner.Plan{Source: tuner.Heuristic}, func(e entry) { got = append(got, e) })
	want := []entry{
		{At: at, Kind: kindPin, By: "ada", Why: "layout = i2s, decode.threads = 3"},
		{At: at, Kind: kindRollback, By: "ada", Why: "slow"},
		{At: at, Kind: kindRollback, By: "eve", Why: "slow"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}
