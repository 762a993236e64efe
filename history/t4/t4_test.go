package t4_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/history/t4"
)

// small is a cache with two parameters, a failure, and fields of every kind.
const small = `{
"device_name": "Some GPU",
"kernel_name": "mul",
"problem_size": [64, 1],
"tune_params_keys": ["threads", "layout"],
"tune_params": {
"threads": [1, 2.5, 4],
"layout": ["a,b", "tl1"]
},
"objective": "time",
"cache": {
"1,a,b": {"threads": 1, "layout": "a,b", "time": 1.5, "times": [1.5, 1.25, 46.318591999999995], "compile_time": 10.5, "verification_time": 0, "benchmark_time": 3, "GFLOP/s": 12.5, "strategy_time": 0.25, "framework_time": 2, "timestamp": "2026-11-21 10:00:00+00:00"},
"4,tl1": {"threads": 4, "layout": "tl1", "time": "RuntimeFailedConfig", "compile_time": 7, "verification_time": 0, "benchmark_time": 0.5, "strategy_time": 0, "framework_time": 1, "timestamp": "2026-11-21 10:00:01+00:00"},
"2.5,tl1": {"threads": 2.5, "layout": "tl1", "time": 3, "times": []}
}
}
`

// file is all that a file says.
type file struct {
	Head    t4.Header
	Entries []t4.Entry
	Torn    bool
}

func read(text string) (file, error) {
	rd, err := t4.NewReader(strings.NewReader(text))
	if err != nil {
		return file{}, err
	}
	var f file
	for {
		e, err := rd.Next()
		if err == io.EOF {
			f.Head, f.Torn = rd.Header(), rd.Torn()
			return f, nil
		}
		if err != nil {
			return file{}, err
		}
		f.Entries = append(f.Entries, e)
	}
}

func mustRead(t *testing.T, text string) file {
	t.Helper()
	f, err := read(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func write(t *testing.T, f file, format t4.Format) string {
	t.Helper()
	var out bytes.Buffer
	w, err := t4.NewWriter(&out, format, f.Head)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range f.Entries {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestReadCache(t *testing.T) {
	valid := small
	nan := math.NaN()
	want := file{
		Head: t4.Header{
			Device: "Some GPU", Kernel: "mul", ProblemSize: "[64,1]", Objective: "time",
			Params: []t4.Param{{Name: "threads", Values: []string{"1", "2.5", "4"}}, {Name: "layout", Values: []string{`"a,b"`, `"tl1"`}}},
		},
		Entries: []t4.Entry{{
			Values: []string{"1", `"a,b"`}, Time: 1.5, Times: []float64{1.5, 1.25, 46.318591999999995},
			Spent: t4.Spent{10.5, 0, 3, 0.25, 2}, Stamp: "2026-11-21 10:00:00+00:00", Rest: []t4.Field{{Name: "GFLOP/s", JSON: "12.5"}},
		}, {
			Values: []string{"4", `"tl1"`}, Time: nan, Failure: "RuntimeFailedConfig", Spent: t4.Spent{7, 0, 0.5, 0, 1}, Stamp: "2026-11-21 10:00:01+00:00",
		}, {
			Values: []string{"2.5", `"tl1"`}, Time: 3, Times: []float64{}, Spent: t4.NotRecorded(),
		}},
	}
	if diff := gocmp.Diff(want, mustRead(t, valid), cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
}

func TestCost(t *testing.T) {
	f := mustRead(t, small)
	want := []float64{10.5 + 0 + 0.25 + 2 + 1.5 + 1.25 + 46.318591999999995, 8, 0}
	var got []float64
	for _, e := range f.Entries {
		got = append(got, e.Cost())
	}
	if diff := gocmp.Diff(want, got, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Errorf("costs (-want +got):\n%s", diff)
	}
}

// Reading what was written gives the same, also by way of the other format, which has room for all of small.
func TestRoundTripOfASmallCache(t *testing.T) {
	want := mustRead(t, small)
	if diff := gocmp.Diff(want, mustRead(t, write(t, want, t4.Cache)), cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("as a cache (-want +got):\n%s", diff)
	}
	results := mustRead(t, write(t, want, t4.Results))
	wantWords := []string{`"correct"`, `"runtime"`, `"correct"`}
	for i := range results.Entries {
		if got := results.Entries[i].Result[0].JSON; got != wantWords[i] {
			t.Errorf("entry %d: invalidity %s; want %s", i, got, wantWords[i])
		}
		results.Entries[i].Result = nil
	}
	if diff := gocmp.Diff(want.Entries, results.Entries, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("as results (-want +got):\n%s", diff)
	}
}

// A killed run leaves any beginning of a file. Every entry that is whole must be read, and nothing else.
func TestTornAnywhere(t *testing.T) {
	text := small
	whole := mustRead(t, text)
	begin := strings.Index(text, `"cache": {`) + len(`"cache": {`)
	for at := begin; at < len(text)-2; at++ {
		f, err := read(text[:at])
		if err != nil {
			t.Fatalf("%q: %v", text[max(0, at-40):at], err)
		}
		n := strings.Count(text[begin:at], "}")
		want := whole.Entries[:min(n, 3)]
		if diff := gocmp.Diff(want, f.Entries, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); diff != "" || !f.Torn {
			t.Fatalf("torn at %q: Torn = %v, entries (-want +got):\n%s", text[max(0, at-40):at], f.Torn, diff)
		}
	}
	if _, err := read(text[:begin-1]); err == nil {
		t.Error("a torn header was read; want an error")
	}
}

func TestTornGzip(t *testing.T) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	for i := range 3 {
		io.WriteString(zip, strings.Split(small, "\"4,tl1")[0])
		if i == 0 {
			break
		}
	}
	zip.Flush()
	f := mustRead(t, packed.String())
	if len(f.Entries) != 1 || !f.Torn {
		t.Errorf("%d entries, torn %v; want 1, true", len(f.Entries), f.Torn)
	}
}

func TestErrorsNameLineAndKey(t *testing.T) {
	line := func(from, to string) string { return strings.Replace(small, from, to, 1) }
	results := `{"schema_version": "1.0.0", "results": [
{"configuration": {"a": 1}, "times": {"runtimes": [1]}, "invalidity": "correct", "correctness": 1, "measurements": [{"name": "time", "value": 1, "unit": "ms"}]},
`
	for name, c := range map[string]struct{ text, want string }{
		"empty":                {"", "line 1: the file ends"},
		"list":                 {"[]", `line 1: found '['; want '{'`},
		"other file":           {`{"a": 1}`, `neither "cache" nor "results"`},
		"no parameters":        {`{"cache": {}}`, `cache: no "tune_params_keys"`},
		"key is no list":       {line(`["threads", "layout"]`, `{}`), `line 5: tune_params_keys: found '{'; want '['`},
		"parameter twice":      {line(`["threads", "layout"]`, `["threads", "threads"]`), `line 5: tune_params_keys: parameter "threads" is empty or taken`},
		"values of no key":     {line(`"layout": ["a,b"`, `"lay": ["a,b"`), `line 8: tune_params: lay: is not in`},
		"value twice":          {line(`[1, 2.5, 4]`, `[1, 4, 4]`), `line 7: tune_params: threads: value 4 for the second time`},
		"value is a list":      {line(`[1, 2.5, 4]`, `[[1]]`), `line 7: tune_params: threads: want a number`},
		"values missing":       {line("},\n\"objective\"", "},\n\"tune_params\": {\"threads\": [1]},\n\"objective\""), `tune_params: threads: for the second time`},
		"time is a list":       {line(`"time": 1.5`, `"time": [1]`), `line 12: 1,a,b: time: want a number`},
		"time missing":         {line(`"time": 1.5, `, ``), `line 12: 1,a,b: time: missing`},
		"time empty":           {line(`"time": 1.5`, `"time": ""`), `line 12: 1,a,b: time: want a number, or an error class`},
		"samples are strings":  {line(`1.25`, `"x"`), `line 12: 1,a,b: times: want a number`},
		"compile time is null": {line(`10.5`, `null`), `line 12: 1,a,b: compile_time: want a number`},
		"foreign value":        {line(`"threads": 4,`, `"threads": 3,`), `line 13: 4,tl1: threads: 3 is not among`},
		"parameter missing":    {line(`"threads": 4, `, ``), `line 13: 4,tl1: threads: missing`},
		"setting twice":        {line(`"threads": 4, `, `"threads": 4, "threads": 4, `), `line 13: 4,tl1: threads: for the second time`},
		"number":               {line(`1.25`, `01`), `line 12: 1,a,b: times: found "01,"; want a value`},
		"out of range":         {line(`1.25`, `1e999`), `line 12: 1,a,b: times: number is out of range`},
		"comma":                {line(`"GFLOP/s": 12.5,`, `"GFLOP/s": 12.5`), `line 12: 1,a,b: found '"'; want ',' or '}'`},
		"after the end":        {small + "x", `line 17: found 'x' after the end`},
		"entries twice":        {line("}\n}\n}\n", "}\n},\n\"cache\": {}}"), "cache: entries for the second time"},
		"too deep":             {`{"a": ` + strings.Repeat("[", 40), "line 1: a: nested more than 32 deep"},
		"escape":               {`{"a": "\x"}`, `line 1: a: "\"\\x\"" is not a JSON string`},
		"no time":              {line(`"time": 3, `, ``), `line 14: 2.5,tl1: time: missing`},
		"version":              {`{"schema_version": "2.0.0", "results": []}`, `schema_version: "2.0.0"; want "1.x.y"`},
		"invalidity":           {results + `{"invalidity": "slow"`, `line 3: invalidity: "slow": want timeout`},
		"other parameter":      {results + `{"configuration": {"b": 1}`, `line 3: configuration: b: not a parameter of the first`},
		"no correctness":       {results + `{"configuration": {"a": 1}, "times": {}, "invalidity": "correct"}`, `line 3: correctness: missing`},
		"measurement":          {results + `{"measurements": [{"name": "time"}]}`, `line 3: measurements: measurement without`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := read(c.text); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v; want %q in one line", err, c.want)
			}
		})
	}
}

func TestHugeEntryIsRefused(t *testing.T) {
	text := strings.Replace(small, `"GFLOP/s": 12.5`, `"note": "`+strings.Repeat("x", 5<<20)+`"`, 1)
	if _, err := read(text); err == nil || !strings.Contains(err.Error(), "line 12: 1,a,b: note: more than 4194304 bytes") {
		t.Errorf("error %v; want the bound", err)
	}
}

// recorded returns the files of recorded spaces.
func recorded(t testing.TB) []string {
	t.Helper()
	dir := cmp.Or(os.Getenv("REPLAY_DATA"), filepath.Join("..", "..", "..", "shared", "replay"))
	files, _ := filepath.Glob(filepath.Join(dir, "*.json.gz"))
	if len(files) == 0 {
		if strings.Contains(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), "replay") {
			t.Fatalf("recorded spaces are required, but %q has none; set REPLAY_DATA to their directory", dir)
		}
		t.Skipf("NOT TESTED: no recorded spaces in %q; set REPLAY_DATA to their directory", dir)
	}
	return files
}

// Every recorded file, written again, is the same document: as this package sees both, and, of the smaller ones, as
// encoding/json does.
func TestRoundTripOfRecordedSpaces(t *testing.T) {
	for _, name := range recorded(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			original := unzip(t, name)
			rd, err := t4.NewReader(bytes.NewReader(original))
			if err != nil {
				t.Fatal(err)
			}
			f := mustRead(t, string(original))
			rewritten := write(t, f, rd.Format())
			if diff := difference(f, mustRead(t, rewritten)); diff != "" {
				t.Errorf("file (-want +got):\n%.2000s", diff)
			}
			if len(original) > 6e6 {
				return // encoding/json takes seconds
			}
			if want, got := document(t, original), document(t, []byte(rewritten)); !reflect.DeepEqual(want, got) {
				t.Errorf("document (-want +got):\n%.2000s", gocmp.Diff(want, got))
			}
		})
	}
}

// difference is cmp.Diff of the entries and parameters of two files, without its cost where they are equal.
func difference(want, got file) string {
	same := slices.EqualFunc(want.Entries, got.Entries, func(x, y t4.Entry) bool {
		times := []float64{x.Time, y.Time}
		for phase := range x.Spent {
			times = append(times, x.Spent[phase], y.Spent[phase])
		}
		for i := 0; i < len(times); i += 2 {
			if times[i] != times[i+1] && !(math.IsNaN(times[i]) && math.IsNaN(times[i+1])) {
				return false
			}
		}
		x.Time, y.Time, x.Spent, y.Spent = 0, 0, t4.Spent{}, t4.Spent{}
		return reflect.DeepEqual(x, y)
	})
	if same && reflect.DeepEqual(want.Head, got.Head) {
		return ""
	}
	return gocmp.Diff(want, got, cmpopts.EquateNaNs())
}

func unzip(t *testing.T, name string) []byte {
	t.Helper()
	packed, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	zip, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func document(t *testing.T, text []byte) any {
	t.Helper()
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// The same space in both formats holds the same entries.
func TestFormatsAgree(t *testing.T) {
	dir := filepath.Dir(recorded(t)[0])
	cache := mustRead(t, string(unzip(t, filepath.Join(dir, "convolution-A100.json.gz"))))
	results := mustRead(t, string(unzip(t, filepath.Join(dir, "convolution-A100.t4.json.gz"))))
	only := cmpopts.IgnoreFields(t4.Entry{}, "Rest", "Result", "Spent")
	if diff := gocmp.Diff(cache.Entries, results.Entries, only, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("entries (-cache +results):\n%.2000s", diff)
	}
	for i := range cache.Entries {
		if want, got := cache.Entries[i].Cost(), results.Entries[i].Cost(); math.Abs(want-got) > 1e-9*want {
			t.Fatalf("entry %d costs %v as a cache, %v as results", i, want, got)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	head := t4.Header{Params: []t4.Param{{Name: "threads", Values: []string{"1"}}}}
	for name, c := range map[string]struct {
		head  t4.Header
		entry t4.Entry
		want  string
	}{
		"no parameters": {t4.Header{}, t4.Entry{}, "no parameters"},
		"bad value":     {t4.Header{Params: []t4.Param{{Name: "a", Values: []string{"x"}}}}, t4.Entry{}, "parameter a: value x: want a number"},
		"too few":       {head, t4.Entry{}, "0 values; want one for each of 1"},
		"bad setting":   {head, t4.Entry{Values: []string{"[]"}}, "parameter threads: value []: want a number"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := t4.NewWriter(io.Discard, t4.Cache, c.head)
			if err == nil {
				err = w.Write(c.entry)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v; want %q in it", err, c.want)
			}
		})
	}
}

func TestRecords(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	rec := func(config, status string, samples ...float64) history.Record {
		return history.Record{Time: at, Host: "h", Model: "m", Target: "cpu", Regime: "decode", Config: []byte(config), Status: status, Samples: samples, Elapsed: time.Second}
	}
	var g t4.Records
	for _, r := range []history.Record{
		rec(`{"threads": 1, "blocking": {"rows": 4}}`, history.StatusOK, 3e6, 5e6),
		rec(`{"threads": 2, "blocking": {"rows": 4}}`, history.StatusOutOfMemory),
		rec(`{"threads": 1, "blocking": {"rows": 4}}`, history.StatusOK, 4e6),
		rec(`{"threads": 4, "blocking": {"rows": 4}}`, history.StatusCensored),
	} {
		if err := g.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	spent := func(ms float64) t4.Spent {
		s := t4.NotRecorded()
		s[t4.Benchmark] = ms
		return s
	}
	want := []t4.Entry{
		{Values: []string{"1", "4"}, Time: 4, Unit: "ms", Times: []float64{3, 5, 4}, Spent: spent(2000), Stamp: "2026-11-21T10:00:00Z"},
		{Values: []string{"2", "4"}, Time: math.NaN(), Unit: "ms", Failure: "RuntimeFailedConfig", Spent: spent(1000), Stamp: "2026-11-21T10:00:00Z",
			Rest: []t4.Field{{Name: "status", JSON: `"out_of_memory"`}}},
	}
	entries := g.Entries()
	for i, carries := range []int{2, 1} {
		last := len(entries[i].Rest) - 1
		if f := entries[i].Rest[last]; f.Name != "records" || strings.Count(f.JSON, `"host"`) != carries {
			t.Errorf("entry %d carries %+v; want its %d records", i, f, carries)
		}
		if entries[i].Rest = entries[i].Rest[:last]; last == 0 {
			entries[i].Rest = nil
		}
	}
	if diff := gocmp.Diff(want, entries, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	wantParams := []t4.Param{{Name: "threads", Values: []string{"1", "2", "4"}}, {Name: "blocking.rows", Values: []string{"4"}}}
	if diff := gocmp.Diff(wantParams, g.Header().Params); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
	for _, format := range []t4.Format{t4.Cache, t4.Results} {
		if f := mustRead(t, write(t, file{Head: g.Header(), Entries: g.Entries()}, format)); len(f.Entries) != 2 {
			t.Errorf("%v: %d entries came back; want 2", format, len(f.Entries))
		}
	}
	foreign := rec(`{"threads": 1}`, history.StatusOK)
	foreign.Host = "other"
	if err := g.Add(foreign); err == nil || !strings.Contains(err.Error(), "want host h model m") {
		t.Errorf("error %v; want the group", err)
	}
}

// The settings of an engine, and those of GPU kernels, do not all have the same names.
func TestSettingsWithOtherNames(t *testing.T) {
	var g t4.Records
	var want []history.Record
	for i, config := range []string{`{"threads":1}`, `{"threads":1,"poll":50}`, `{"poll":0,"launch":{"split_k":2}}`, `{"threads":1}`} {
		r := history.Record{Run: 1, Seq: uint32(i + 1), Host: strings.Repeat("a", 32), Model: strings.Repeat("b", 32), Target: "engine:llama-bench",
			Regime: "decode", Config: []byte(config), Status: history.StatusOK, Costs: []float64{1}, Samples: []float64{1e6 + float64(i)}, Elapsed: time.Second}
		want = append(want, r)
		if err := g.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	var values [][]string
	for _, e := range g.Entries() {
		values = append(values, e.Values)
	}
	unset := `"unset"`
	if diff := gocmp.Diff([][]string{{"1", unset, unset}, {"1", "50", unset}, {unset, "0", "2"}}, values); diff != "" {
		t.Errorf("values of threads, poll and launch.split_k (-want +got):\n%s", diff)
	}
	for _, format := range []t4.Format{t4.Cache, t4.Results} {
		text := write(t, file{Head: g.Header(), Entries: g.Entries()}, format)
		if n := len(mustRead(t, text).Entries); n != 3 {
			t.Errorf("%v: %d entries came back; want 3", format, n)
		}
		if n := strings.Count(text, `"samples_ns"`); n != len(want) {
			t.Errorf("%v: %d records are carried; want all %d", format, n, len(want))
		}
	}
}

// FuzzRead feeds anything. What can be read can be written, and then reads the same.
func FuzzRead(f *testing.F) {
	f.Add(small)
	f.Add(strings.Replace(small, `"time": 3`, `"time": NaN`, 1))
	f.Add(small[:len(small)-40])
	f.Add(`{"schema_version": "1.0.0", "results": [{"configuration": {"a": true}, "times": {"runtimes": [1], "x": 2}, "invalidity": "timeout", "correctness": 1, "measurements": [{"name": "time", "value": "T", "unit": "ms"}, {"name": "e", "value": [1]}]}]}`)
	f.Add("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := read(text)
		if err != nil {
			return
		}
		rd, _ := t4.NewReader(strings.NewReader(text))
		if len(got.Head.Params) == 0 {
			return // results without entries name none, and no writer takes that
		}
		again := mustRead(t, write(t, got, rd.Format()))
		if diff := gocmp.Diff(got.Entries, again.Entries, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("entries, written and read again (-want +got):\n%s", diff)
		}
	})
}

// BenchmarkRead reads the largest recorded space, 16.5 MB when unpacked.
func BenchmarkRead(b *testing.B) {
	for _, name := range recorded(b) {
		if !strings.Contains(name, "gemm") {
			continue
		}
		packed, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		b.SetBytes(16502374)
		for b.Loop() {
			rd, err := t4.NewReader(bytes.NewReader(packed))
			for err == nil {
				_, err = rd.Next()
			}
			if err != io.EOF {
				b.Fatal(err)
			}
		}
	}
}
