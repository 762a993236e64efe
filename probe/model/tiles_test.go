package model

import "testing"

// Tiles that are published can be: the converter would refuse others.
func TestPublishedTilesArePossible(t *testing.T) {
	sources := make(map[string]int)
	for _, p := range published {
		sources[p.kind+" "+p.source]++
		if err := p.check(p.kind, p.n, p.k); err != nil {
			t.Errorf("%s for %s, %d x %d: %v", p.kind, p.model, p.n, p.k, err)
		}
	}
	for source, want := range map[string]int{"tl1 setup_env.py": 10, "tl2 setup_env.py": 10, "tl1 preset_kernels": 4} {
		if sources[source] != want {
			t.Errorf("%d from %s, want %d", sources[source], source, want)
		}
	}
}
