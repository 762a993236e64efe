package main

import (
	"encoding/xml"
	"io"
	"math/rand/v2"
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
	if text := table(planted(0.05)); strings.Count(text, "\n| p") != 5 {
		t.Errorf("the table has not five quantiles:\n%s", text)
	}
}
