package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
	"github.com/bitnet-autotune/bitnet-autotune/experiments/report"
)

// valley is a table of two parameters with a valley, whose every 13th point fails.
func valley(t *testing.T, name string) replay.Scored {
	t.Helper()
	var entries []string
	for x := range 12 {
		for y := range 7 {
			ms := fmt.Sprint(1 + 0.03*float64((x-8)*(x-8)) + 0.02*float64((y-2)*(y-2)))
			if (7*x+y)%13 == 5 {
				ms = `"RuntimeFailedConfig"`
			}
			entries = append(entries, fmt.Sprintf(`"%d,%d": {"block_size": %d, "unroll": %d, "time": %s, "compile_time": %d}`, 1<<x, y+1, 1<<x, y+1, ms, 900+50*y))
		}
	}
	text := fmt.Sprintf(`{"tune_params_keys": ["block_size", "unroll"], "tune_params": {"block_size": [1,2,4,8,16,32,64,128,256,512,1024,2048], "unroll": [1,2,3,4,5,6,7]}, "cache": {%s}}`, strings.Join(entries, ",\n"))
	table, err := replay.Read(name, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	scored, err := replay.Score(table)
	if err != nil {
		t.Fatal(err)
	}
	return scored
}

func experiment(t *testing.T) *replay.Experiment {
	t.Helper()
	return &replay.Experiment{Tables: []replay.Scored{valley(t, "first"), valley(t, "a/b")}, Strategies: []string{"random", "descent"}, First: 1, Seeds: 6, Workers: 2}
}

func played(t *testing.T, x *replay.Experiment) *report.Report {
	t.Helper()
	results, err := x.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return report.New(x, results, 90*time.Second)
}

// board makes a board of invented runs of two strategies on two spaces: of each run the score and the evaluations until
// within 5 % and 1 %.
func board(t *testing.T) *report.Board {
	t.Helper()
	x := experiment(t)
	x.Seeds = 3
	run := func(score float64, five, one int) replay.Result {
		return replay.Result{Score: score, Steps: 9, Within5: five, Within1: one}
	}
	return report.NewBoard(x, replay.Results{
		{{run(0, 9, 0), run(0.1, 5, 0), run(0.2, 0, 8)}, {run(-1, 0, 0), run(0, 0, 0), run(-0.5, 3, 0)}},
		{{run(1, 1, 1), run(0.8, 2, 3), run(0.9, 3, 2)}, {run(0.4, 4, 4), run(0.6, 4, 0), run(0.5, 4, 5)}},
	}, 90*time.Second)
}

// By hand: descent has the means 0.9 and 0.5, random 0.1 and -0.5. The deviations within a space are 0.1 and 0.1, and 0.1
// and 0.5; the variances of the means a third of their squares, so that the errors are sqrt(0.02/3)/2 and sqrt(0.26/3)/2.
func TestBoard(t *testing.T) {
	text, err := json.Marshal(board(t))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Spaces     []struct{ Name string }
		Strategies []map[string]any
		Seeds      int
		Seed       uint64
		Runs       int
		Planned    int  `json:"runs_planned"`
		Stopped    bool `json:"interrupted"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := got
	want.Spaces = []struct{ Name string }{{"first"}, {"a/b"}}
	want.Seeds, want.Seed, want.Runs, want.Planned, want.Stopped = 3, 1, 12, 12, false
	want.Strategies = []map[string]any{{
		"name": "descent", "score": 0.7, "score_standard_error": 0.040825, "worst_space": "a/b", "worst_score": 0.5,
		"score_by_space":                  map[string]any{"first": 0.9, "a/b": 0.5},
		"evaluations_to_within_5_percent": 4.0, "evaluations_to_within_1_percent": 4.0,
		"evaluations_to_within_5_percent_by_space": map[string]any{"first": 2.0, "a/b": 4.0},
		"evaluations_to_within_1_percent_by_space": map[string]any{"first": 2.0, "a/b": 5.0},
		"runs_by_space": map[string]any{"first": 3.0, "a/b": 3.0},
	}, {
		"name": "random", "score": -0.2, "score_standard_error": 0.147196, "worst_space": "a/b", "worst_score": -0.5,
		"score_by_space":                  map[string]any{"first": 0.1, "a/b": -0.5},
		"evaluations_to_within_5_percent": nil, "evaluations_to_within_1_percent": nil,
		"evaluations_to_within_5_percent_by_space": map[string]any{"first": 9.0, "a/b": nil},
		"evaluations_to_within_1_percent_by_space": map[string]any{"first": nil, "a/b": nil},
		"runs_by_space": map[string]any{"first": 3.0, "a/b": 3.0},
	}}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-6 })
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Errorf("board (-want +got):\n%s", diff)
	}
}

func TestText(t *testing.T) {
	var text, markdown strings.Builder
	b := board(t)
	b.WriteText(&text)
	b.WriteMarkdown(&markdown)
	for _, want := range []string{
		"2 strategies, 2 spaces, seeds 1 to 3: 12 runs in 1m30s\n",
		"                  descent  random\n", "  mean               0.70   -0.20\n", "  a/b                0.50   -0.50\n", "  a/b                 4/5     –/–\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("text lacks %q:\n%s", want, text.String())
		}
	}
	for _, want := range []string{
		"| strategy | mean | first | a/b |\n|---|---|---|---|\n| descent | 0.70 | 0.90 | 0.50 |\n", "| descent | 2 / 2 | 4 / 5 |\n", "| first | 84 | ",
	} {
		if !strings.Contains(markdown.String(), want) {
			t.Errorf("markdown lacks %q:\n%s", want, markdown.String())
		}
	}
	if strings.Contains(text.String()+markdown.String(), "interrupted") {
		t.Error("a complete board says that it was interrupted")
	}
}

// An experiment that is ended early has what was complete until then, says how much is missing, and gives no score to what
// was not played on every space.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	x := experiment(t)
	x.Workers = 1
	x.Progress = func(p replay.Progress) {
		if p.Done == 3 {
			cancel()
		}
	}
	results, err := x.Run(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v; want that of the context", err)
	}
	r := report.New(x, results, time.Second)
	if r.Board.Runs != 3 || !r.Board.Interrupted {
		t.Errorf("%d runs, interrupted %v; want 3, true", r.Board.Runs, r.Board.Interrupted)
	}
	var text, page bytes.Buffer
	r.Board.WriteText(&text)
	if err := r.WriteHTML(&page); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"interrupted: 3 of 24 runs ended, 88 % are missing", "–"} {
		if !strings.Contains(text.String(), want) || !strings.Contains(page.String(), want) {
			t.Errorf("text or page lack %q:\n%s", want, text.String())
		}
	}
	if _, err := json.Marshal(r.Board); err != nil {
		t.Error(err)
	}
}

// Nothing but the page is needed: whatever it refers to is in it, and it has no script.
func TestPageIsSelfContained(t *testing.T) {
	var page bytes.Buffer
	if err := played(t, experiment(t)).WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, unwanted := range []string{"http:", "https:", "<script", "@import", "url(", "ZgotmplZ", "<?xml"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("the page has %q", unwanted)
		}
	}
	ids := map[string]int{}
	for _, id := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		ids[id[1]]++
	}
	for id, times := range ids {
		if times > 1 {
			t.Errorf("%d elements have the id %q", times, id)
		}
	}
	links := regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(text, -1)
	for _, link := range links {
		if target, inside := strings.CutPrefix(link[1], "#"); link[1] != "data:," && (!inside || ids[target] == 0) {
			t.Errorf("link to %q, which is not in the page", link[1])
		}
	}
	if len(links) < 6 {
		t.Errorf("%d links; want a table of contents", len(links))
	}
	if figures := strings.Count(text, "<svg role="); figures != 8 {
		t.Errorf("%d plots; want 2 of all spaces and 3 of each", figures)
	}
	for _, want := range []string{`<title>descent</title>`, `class="series s1"`, "var(--c1)", "var(--ink)", "unroll 3, block_size 256: 1.000 times the optimum, 1 point"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestFigures wants every plot as sound XML with visible lines, and as a picture of more than its paper.
func TestFigures(t *testing.T) {
	x := experiment(t)
	x.Tables = x.Tables[:1]
	for _, f := range played(t, x).Figures() {
		t.Run(f.Name, func(t *testing.T) {
			var svg, picture bytes.Buffer
			if err := errors.Join(f.WriteSVG(&svg), f.WritePNG(&picture)); err != nil {
				t.Fatal(err)
			}
			if paths := pathsOf(t, svg.Bytes()); paths < 10 {
				t.Errorf("%d lines and areas; want a plot", paths)
			}
			img, err := png.Decode(&picture)
			if err != nil {
				t.Fatal(err)
			}
			colours := map[any]bool{}
			for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y += 8 {
				for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x += 8 {
					colours[img.At(x, y)] = true
				}
			}
			if len(colours) < 10 {
				t.Errorf("%d colours; want a plot", len(colours))
			}
		})
	}
}

// pathsOf counts the lines and areas of an SVG, none of which may be empty or nowhere.
func pathsOf(t *testing.T, svg []byte) (paths int) {
	t.Helper()
	dec := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return paths
		}
		if err != nil {
			t.Fatal(err)
		}
		element, ok := token.(xml.StartElement)
		if !ok || element.Name.Local != "path" {
			continue
		}
		paths++
		for _, a := range element.Attr {
			if a.Name.Local == "d" && (len(a.Value) < 5 || strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf")) {
				t.Errorf("path %q", a.Value)
			}
		}
	}
}

// A space of one parameter, one that varies by too much, and more strategies than colours are drawn as well.
func TestOddSpaces(t *testing.T) {
	for name, values := range map[string]int{"one value": 1, "two values": 2, "five values": 5, "more values than can be told apart": 90} {
		t.Run(name, func(t *testing.T) {
			var entries, list []string
			for x := range values {
				list = append(list, fmt.Sprint(x+1))
				entries = append(entries, fmt.Sprintf(`"%d": {"x": %d, "time": %d, "compile_time": 100}`, x+1, x+1, x+3))
			}
			text := fmt.Sprintf(`{"tune_params_keys": ["x"], "tune_params": {"x": [%s]}, "cache": {%s}}`, strings.Join(list, ","), strings.Join(entries, ",\n"))
			table, err := replay.Read("odd", strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			scored, err := replay.Score(table)
			if err != nil {
				t.Fatal(err)
			}
			many := strings.Split(strings.Repeat("random ", 9)+"exhaustive", " ")
			x := &replay.Experiment{Tables: []replay.Scored{scored}, Strategies: many, Seeds: 1, Workers: 1}
			var page bytes.Buffer
			if err := played(t, x).WriteHTML(&page); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(page.String(), "NaN") || !strings.Contains(page.String(), "s9") {
				t.Error("the page has NaN, or lacks the last strategy")
			}
		})
	}
}

// The name of a space may be a path; that of a figure is one of a file.
func TestFilesHaveNoSlash(t *testing.T) {
	dir := t.TempDir()
	for _, f := range played(t, experiment(t)).Figures() {
		if err := os.WriteFile(filepath.Join(dir, f.Name), nil, 0o666); err != nil {
			t.Error(err)
		}
	}
}
