package dashboard

import (
	"bytes"
	"math"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model/modeltest"
)

var (
	metricName = regexp.MustCompile(`^bitnet_autotune_[a-z0-9]+(_[a-z0-9]+)*$`)
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)`)
)

// lint checks a page of metrics as promtool does, and returns the values by series.
func lint(t *testing.T, page []byte) map[string]float64 {
	t.Helper()
	if !bytes.HasSuffix(page, []byte("\n")) {
		t.Error("the last line is not ended")
	}
	values := map[string]float64{}
	helped, typed := map[string]bool{}, map[string]string{}
	family := ""
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, help, _ := strings.Cut(rest, " ")
			if helped[name] || help == "" || !strings.HasSuffix(help, ".") {
				t.Errorf("%q: once before: %t; want one sentence", line, helped[name])
			}
			helped[name], family = true, name
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			if typed[name] != "" || name != family || kind != "gauge" && kind != "counter" || !metricName.MatchString(name) || (kind == "counter") != strings.HasSuffix(name, "_total") {
				t.Errorf("%q after HELP of %q, type %q before", line, family, typed[name])
			}
			typed[name] = kind
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil || m[1] != family || typed[family] == "" {
			t.Errorf("%q does not parse, or is not of %q", line, family)
			continue
		}
		labels := map[string]bool{}
		for rest := strings.Trim(m[2], "{}"); rest != ""; {
			pair := labelPair.FindStringSubmatch(rest)
			if pair == nil || labels[pair[1]] {
				t.Errorf("labels of %q", line)
				break
			}
			labels[pair[1]] = true
			rest = rest[len(pair[0]):]
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if _, twice := values[m[1]+m[2]]; err != nil || twice {
			t.Errorf("%q: %v; there before: %t", line, err, twice)
		}
		values[m[1]+m[2]] = value
	}
	for _, bad := range []string{"_ms", "_milliseconds", "_percent", "_kib", "_mib", "_minutes", "_hours"} {
		for name := range typed {
			if strings.Contains(name, bad) {
				t.Errorf("%s: want base units", name)
			}
		}
	}
	return values
}

func TestMetrics(t *testing.T) {
	store := t.TempDir()
	cert := learn(t, openSimulated(t, store))
	hostile := filepath.Join(t.TempDir(), "a \"model\"\nname \\n {x=\"y\"} \xff.gguf")
	alike := strings.Replace(hostile, "\xff", "\xfe", 1) // two names that no page can tell apart
	for _, path := range []string{hostile, alike} {
		if err := modeltest.Write(path, modeltest.Small(), "i2_s", 1, func(int, int) model.TileParameters { return model.TileParameters{} }); err != nil {
			t.Fatal(err)
		}
	}
	v := open(t, store, nil, anyModel, hostile, alike)
	l := listen(v)
	l.until(ofKind("state"))
	status, header, page := v.ask("GET", "/metrics", "")
	if status != http.StatusOK || header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Fatalf("%d %v", status, header)
	}
	values := lint(t, page)
	of := `{model="` + anyModel + `"}`
	for series, want := range map[string]float64{
		`bitnet_autotune_build_info{version="test"}`:                             1,
		`bitnet_autotune_mode_info{mode="use"}`:                                  1,
		`bitnet_autotune_phase{phase="waiting"}`:                                 1,
		`bitnet_autotune_phase{phase="measuring"}`:                               0,
		`bitnet_autotune_cpu_budget_seconds`:                                     1800,
		`bitnet_autotune_steps_total`:                                            0,
		`bitnet_autotune_event_streams`:                                          1,
		`bitnet_autotune_drift_limit` + of:                                       10,
		`bitnet_autotune_plan_speedup_ratio` + of:                                cert.Ratio.Estimate,
		`bitnet_autotune_plan_evaluations` + of:                                  float64(cert.Evaluations + cert.Known),
		`bitnet_autotune_plan_threads{model="` + anyModel + `",regime="decode"}`: float64(cert.Best.Config.Decode.Threads),
		`bitnet_autotune_plan_info{model="` + anyModel + `",source="measured",layout="i2s",config="` + cert.Best.Config.Hash() + `"}`: 1,
		`bitnet_autotune_checks{model="` + escapeLabel.Replace(strings.ToValidUTF8(hostile, "�")) + `"}`:                              0,
	} {
		if got, ok := values[series]; !ok || got != want {
			t.Errorf("%s is %v (there: %t), want %v", series, got, ok, want)
		}
	}
	if t.Failed() {
		t.Logf("%s", page)
	}
}

func TestMetricsAreEscaped(t *testing.T) {
	var page bytes.Buffer
	gauge("some", "A \\ and a\nline.", series{math.Inf(1), []string{"a", "\\ \" \n"}}, series{math.Inf(-1), []string{"a", "b", "c", "d"}}, one(math.NaN())).write(&page)
	gauge("nothing", "Without series.").write(&page)
	want := `# HELP bitnet_autotune_some A \\ and a\nline.
# TYPE bitnet_autotune_some gauge
bitnet_autotune_some{a="\\ \" \n"} +Inf
bitnet_autotune_some{a="b",c="d"} -Inf
bitnet_autotune_some NaN
`
	if diff := cmp.Diff(want, page.String()); diff != "" {
		t.Error(diff)
	}
}
