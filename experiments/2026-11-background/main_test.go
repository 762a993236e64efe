package main

import (
	"encoding/xml"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// planted are pairs in which a share of the requests with the tuner takes half as long again.
func planted(share float64) (halves []half) {
	random := rand.New(rand.NewPCG(1, 1))
	for pair := range 10 {
		for _, with := range []bool{false, true} {
			h := half{Pair: pair, Tuner: with}
			for range 200 {
				took := 10 + random.Float64()
				if with && random.Float64() < share {
					took *= 1.5
				}
				h.Latencies = append(h.Latencies, took)
			}
			halves = append(halves, h)
		}
	}
	return halves
}

func TestRatioOfQuantiles(t *testing.T) {
	if _, low, high := ratio(planted(0), 0.99, 1); low > 1 || high < 1 || high-low > 0.02 {
		t.Errorf("where nothing differs: %.4f-%.4f, want a narrow interval around 1", low, high)
	}
	if estimate, low, _ := ratio(planted(0.05), 0.99, 1); estimate < 1.4 || low < 1.4 {
		t.Errorf("where one in twenty takes half as long again: %.3f, from %.3f, want 1.4 or more", estimate, low)
	}
	if estimate, _, high := ratio(planted(0.05), 0.5, 1); estimate > 1.01 || high > 1.02 {
		t.Errorf("its median: %.3f, to %.3f, want about 1", estimate, high)
	}
}

func TestQuantile(t *testing.T) {
	list := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.2: 1, 0.21: 2, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(list, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}

func TestPictureIsXML(t *testing.T) {
	dec := xml.NewDecoder(strings.NewReader(picture(planted(0.05))))
	for {
		if _, err := dec.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if text := table(planted(0.05)); strings.Count(text, "\n| p") != 10 { // and the heads of another
		t.Errorf("the table has not nine quantiles:\n%s", text)
	}
}

func TestRequestsThatMetWork(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	text := "09:06:24 INF something else\n" +
		"09:06:24 DBG a child worked from_us=1000000 to_us=1020000\n" + // the first request, which takes 10 ms
		"09:06:25 DBG a child worked from_us=1150000 to_us=1199999\n" + // between two
		"09:06:25 DBG a child worked from_us=1290000 to_us=1350000\n" // the fourth, and after the end
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	halves := []half{{Tuner: true, Begin: 1_000_000, Seconds: 0.4, Latencies: []float64{10, 10, 10, 10}}, {Begin: 1_000_000, Latencies: []float64{10}}}
	if err := (study{rate: 10}).meet(halves, &daemon{log: log}); err != nil {
		t.Fatal(err)
	}
	if got := halves[0]; !slices.Equal(got.Met, []int{0, 3}) || math.Abs(got.Worked-0.129999) > 1e-9 {
		t.Errorf("met requests %v in %v s of work, want 0 and 3 in 0.13", got.Met, got.Worked)
	}
	if halves[1].Met != nil || halves[1].Worked != 0 {
		t.Errorf("in the half without the tuner: %+v", halves[1])
	}
	if text := felt(halves, 5); !strings.Contains(text, "2 requests (50.00 %) met") || !strings.Contains(text, "32.500 % of the time") {
		t.Errorf("it says\n%s", text)
	}
}

func TestStudiesThatCannotBe(t *testing.T) {
	for name, s := range map[string]study{
		"rate": {pairs: 1, length: 2, settle: 1}, "pairs": {rate: 1, length: 2, settle: 1}, "length": {rate: 1, pairs: 1, length: 1, settle: 1},
	} {
		if err := s.main(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "-"+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
