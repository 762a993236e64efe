package idle

import (
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
