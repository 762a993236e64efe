package tuner

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/history"
)

// writePrior writes learned configs as a prior and returns its path.
func writePrior(t *testing.T, learned ...history.Learned) string {
	t.Helper()
	var doc bytes.Buffer
	if err := history.WritePrior(&doc, learned); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "prior.json")
	if err := os.WriteFile(path, doc.Bytes(), 0o444); err != nil {
		t.Fatal(err)
	}
	return path
}

// What a site ships answers below all that was learned here, and never as measured here.
func TestPriorIsBelowTheOwnStore(t *testing.T) {
	here := *fourCores()
	sibling := here
	sibling.CPU.Model = "Simulated CPU, sibling"
	stranger := here
	stranger.Arch = "mips"
	path := writePrior(t, learnedOn(t, here))
	for name, c := range map[string]struct {
		prior  string
		own    []history.Learned
		want   Source
		reason string
	}{
		"alone":                       {path, nil, NearHost, "from the site prior " + path + ": measured on 2026-11-01 for mixed with 70 arms known on another host of this kind"},
		"below the own":               {path, []history.Learned{learnedOn(t, here)}, Measured, "on this host"},
		"below what a sibling taught": {path, []history.Learned{learnedOn(t, sibling)}, NearHost, "measured on"},
		"of another world":            {writePrior(t, learnedOn(t, stranger)), nil, Heuristic, "arch"},
		"absent":                      {filepath.Join(t.TempDir(), "none"), nil, Heuristic, "run tune"},
	} {
		t.Run(name, func(t *testing.T) {
			p := problemOn(here)
			p.prior = readPrior(c.prior)
			plan := p.plan(&history.Snapshot{Learned: c.own})
			if plan.Source != c.want || !strings.Contains(plan.Reason, c.reason) {
				t.Errorf("source %s because %q, want %s because … %s …", plan.Source, plan.Reason, c.want, c.reason)
			}
			if (plan.Source == NearHost) != slices.Equal(plan.Recheck, []string{"host"}) {
				t.Errorf("recheck %v of a plan from %s", plan.Recheck, plan.Source)
			}
		})
	}
}

func TestDamagedPriorIsAReason(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prior.json")
	for _, content := range []string{"", "{", `{"prior":2}`, `{"prior":1,"learned":[{"host":"x"}]}`} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		tuner, err := Open(Options{Prior: path, Host: fourCores()})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := tuner.Plan(t.Context(), anyModel)
		if err != nil || plan.Source != Heuristic || !strings.Contains(plan.Reason, "site prior could not be read") {
			t.Errorf("%q: plan %s because %q, %v", content, plan.Source, plan.Reason, err)
		}
	}
}

// A changed condition leaves the answer, widens its interval and asks for a check; one that is not known does neither.
func TestChangedConditionAsksForACheck(t *testing.T) {
	then := *fourCores()
	then.Governor, then.Microcode = "performance", ""
	learned := learnedOn(t, then)
	var proof Certificate
	if err := json.Unmarshal(learned.Certificate, &proof); err != nil {
		t.Fatal(err)
	}
	proof.Ratio = Ratio{Estimate: 1.5, Low: 1.44, High: 1.6, Confidence: 0.95}
	learned.Certificate, _ = json.Marshal(proof)
	now := then
	now.Governor, now.Microcode = "powersave", "0x5"
	same := problemOn(then).plan(&history.Snapshot{Learned: []history.Learned{learned}})
	changed := problemOn(now).plan(&history.Snapshot{Learned: []history.Learned{learned}})
	if len(same.Recheck) > 0 || strings.Contains(same.Reason, "checked") {
		t.Errorf("unchanged: recheck %v because %q", same.Recheck, same.Reason)
	}
	if changed.Source != Measured || cmp.Diff(same.Config, changed.Config) != "" {
		t.Errorf("changed: %s %+v, want the same answer", changed.Source, changed.Config)
	}
	if !slices.Equal(changed.Recheck, []string{"governor"}) || !strings.Contains(changed.Reason, "governor was performance and is powersave") {
		t.Errorf("changed: recheck %v because %q, want the governor", changed.Recheck, changed.Reason)
	}
	if math.Abs(math.Log(changed.Ratio.High/changed.Ratio.Low)/math.Log(same.Ratio.High/same.Ratio.Low)-2) > 1e-9 {
		t.Errorf("interval %v, was %v: want twice as wide", changed.Ratio, same.Ratio)
	}
}

func TestExplainTellsUnknownFromDiffers(t *testing.T) {
	then := *fourCores()
	then.Governor, then.Microcode, then.Kernel = "performance", "", "6.1"
	now := then
	now.Governor, now.Microcode = "powersave", "0x5"
	got := map[string]Field{}
	for _, f := range problemOn(now).compareFields(learnedOn(t, then)) {
		got[f.Name] = f
	}
	for name, want := range map[string]Field{
		"governor":  {Class: "condition", Name: "governor", Here: "powersave", Learned: "performance"},
		"microcode": {Class: "condition", Name: "microcode", Here: "0x5", Unknown: true},
		"kernel":    {Class: "condition", Name: "kernel", Here: "6.1", Learned: "6.1", Match: true},
	} {
		if got[name] != want {
			t.Errorf("%+v, want %+v", got[name], want)
		}
	}
}
