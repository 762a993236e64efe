package advisor

import "fmt"

// throttledRule: the control group is stopped, or the cores are slowed for their temperature, while the work runs.
var throttledRule = row{id: "cpu/throttled", category: Hardware, difficulty: Easy, impact: High, check: func(c *Context) (*Suggestion, error) {
	k, s := c.constants(), c.Signals
	if s == nil {
		return nil, &Missing{Part: "throttling of the control group"}
	}
	share := 0.0
	if s.Periods > 0 {
		share = float64(s.Throttled) / float64(s.Periods)
	}
	when := "since the control group began"
	if s.Window > 0 {
		when = fmt.Sprintf("over %v", s.Window)
	}
	advice := &Suggestion{Expected: Improvement{Source: "no figure: it depends on what the work does when it is stopped"}}
	switch {
	case share > k.ThrottledShare:
		advice.Title = "The quota stops the work"
		advice.Description = fmt.Sprintf("In %d of %d scheduling periods %s the quota of CPU time was used up, and everything stood still until the next.", s.Throttled, s.Periods, when)
		advice.Steps = []string{"Run no more threads than the quota rounded down", "If they are no more already, raise the quota: something beside them takes CPU time"}
	case s.Hot:
		advice.Title = "The cores are slowed for their temperature"
		advice.Description = fmt.Sprintf("A core was throttled for its temperature %s.", when)
		advice.Steps = []string{"See to the cooling", "Else run fewer threads: the same power for fewer cores keeps a higher clock"}
		advice.Warnings = []string{"figures taken meanwhile say more about the cooling than about a setting"}
	default:
		return nil, nil
	}
	return advice, nil
}}
