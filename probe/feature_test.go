package probe

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestFeatureWithout(t *testing.T) {
	for _, c := range []struct{ have, off, want Feature }{
		{icelake, 0, icelake},
		{icelake, AVX512, haswell},
		{icelake, AVX2, SSE42 | AVX},
		{icelake, AVX512VNNI, icelake &^ AVX512VNNI},
		{NEON | DotProd | I8MM, NEON, 0},
		{haswell, NEON, haswell},
	} {
		if got := c.have.Without(c.off); got != c.want {
			t.Errorf("%v without %v: %v, want %v", c.have, c.off, got, c.want)
		}
	}
	if !icelake.Has(AVX2|AVX512VNNI) || alder.Has(AVX2|AVX512) || Feature(0).String() != "none" {
		t.Error("Has or String")
	}
}

func TestFeatureJSON(t *testing.T) {
	data, err := json.Marshal(AVX2 | DotProd)
	if err != nil || string(data) != `["avx2","dotprod"]` {
		t.Errorf("%s, %v", data, err)
	}
	if data, err = json.Marshal(Feature(0)); err != nil || string(data) != `[]` {
		t.Errorf("%s, %v", data, err)
	}
	var f Feature
	if err := json.Unmarshal([]byte(`["avx3"]`), &f); err == nil || !strings.Contains(err.Error(), "sse42") {
		t.Errorf("error %v, want one that lists the names", err)
	}
}
