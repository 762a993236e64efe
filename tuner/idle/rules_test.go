package idle

import (
	"math"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

// On the day on which the clocks are set back, 21:30 is 22.5 hours after midnight.
func TestHoursOnTheDayTheClocksChange(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	r := Rules{From: 22 * time.Hour, To: 6 * time.Hour}
	for hour, open := range map[int]bool{21: false, 22: true, 5: true, 6: false} {
		if at := time.Date(2026, 10, 25, hour, 30, 0, 0, berlin); r.open(at) != open {
			t.Errorf("open at %s: %t, want %t", at.Format("15:04"), !open, open)
		}
	}
}

// A share that is no number, or so small that no rest is long enough, would be no rest at all.
func TestSharesThatCannotBe(t *testing.T) {
	if err := DefaultRules.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Rules){
		"utilisation":        func(r *Rules) { r.Utilization = math.NaN() },
		"idle":               func(r *Rules) { r.Idle = math.NaN() },
		"burst share":        func(r *Rules) { r.BurstShare = math.NaN() },
		"burst share 1e-300": func(r *Rules) { r.BurstShare = 1e-300 },
	} {
		r := DefaultRules
		change(&r)
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v, want one that names it", name, err)
		}
	}
	p := Pace{Share: leastBurstShare}
	p.Worked(noon, 30*time.Second)
	if got := p.Next().Sub(noon); got < 300*24*time.Hour {
		t.Errorf("after 30 s of work: a rest of %v", got)
	}
}
