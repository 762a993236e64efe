package t4_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/history/t4"
)

// imported returns the records of a file, and the run that stands for it.
func imported(t *testing.T, text string) ([]history.Record, history.Run, bool) {
	t.Helper()
	reader, err := t4.NewReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	list := t4.NewImport(reader)
	var records []history.Record
	for r, err := range list.All() {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	run, ok := list.Run()
	return records, run, ok
}

// What the history gave away comes back in every bit, by either format.
func TestRecordsComeBack(t *testing.T) {
	var want []history.Record
	for i := range 4 {
		r := history.Record{
			Run: 7829367000000000000, Seq: uint32(i + 1), Time: time.Date(2026, 11, 21, 10, 0, i, 123456789, time.UTC),
			Host: strings.Repeat("0f", 16), Model: strings.Repeat("a5", 16), Target: "cpu", Regime: "decode",
			Config: json.RawMessage(fmt.Sprintf(`{"blocking":{"tile":"4x%d"},"threads":2}`, i/2+1)), Kernel: "mul/i2s/avx2", KernelRev: 2, Signature: "s",
			Status: history.StatusOK, Costs: []float64{0.1 + 0.2, 1.0 / 3}, Samples: []float64{1e6 / 3.0, 2e6}, Elapsed: 1234567,
		}
		if i == 3 {
			r.Status, r.Costs, r.Samples, r.Note = history.StatusOutOfMemory, nil, nil, `no "room" <here>`
		}
		want = append(want, r)
	}
	var g t4.Records
	for _, r := range want {
		if err := g.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	for _, format := range []t4.Format{t4.Cache, t4.Results} {
		got, _, foreign := imported(t, write(t, file{Head: g.Header(), Entries: g.Entries()}, format))
		if diff := gocmp.Diff(want, got); diff != "" || foreign {
			t.Errorf("%v: foreign %v, records (-want +got):\n%s", format, foreign, diff)
		}
	}
}

func TestImportOfAnotherTuner(t *testing.T) {
	records, run, ok := imported(t, small)
	if !ok || run.ID == 0 || run.Facts["device_name"] == "" || run.Finished.Before(run.Started) {
		t.Errorf("run %+v, %v; want one that names the device", run, ok)
	}
	again, same, _ := imported(t, small)
	if diff := gocmp.Diff(records, again); diff != "" || same.ID != run.ID {
		t.Errorf("the same file differs the second time, run %d and %d:\n%s", run.ID, same.ID, diff)
	}
	other, _, _ := imported(t, strings.Replace(small, "Some GPU", "Another", 1))
	if other[0].Host == records[0].Host || other[0].Model != records[0].Model {
		t.Errorf("another device: host %s, model %s; want another host, the same model", other[0].Host, other[0].Model)
	}
	for i, r := range records {
		if r.Run != run.ID || int(r.Seq) != i+1 || r.Target != "recorded" || !json.Valid(r.Config) {
			t.Errorf("record %d: %+v", i, r)
		}
		if failed := r.Status != history.StatusOK; failed != (len(r.Samples) == 0) || failed != (r.Note != "") {
			t.Errorf("record %d: status %s with %d samples and note %q", i, r.Status, len(r.Samples), r.Note)
		}
	}
}

func TestImportNamesWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		replace []string
		want    string
	}{
		"records that are none":  {[]string{`"time": 1.5`, `"time": 1.5, "records": [{"run": 1}]`}, "records"},
		"records with a surplus": {[]string{`"time": 1.5`, `"time": 1.5, "records": [{"speed": 1}]`}, `unknown field "speed"`},
		"a value JSON lacks":     {[]string{`[1, 2.5, 4]`, `[1, NaN, 4]`, `{"threads": 2.5`, `{"threads": NaN`}, "threads: NaN"},
	} {
		t.Run(name, func(t *testing.T) {
			reader, err := t4.NewReader(strings.NewReader(strings.NewReplacer(c.replace...).Replace(small)))
			if err != nil {
				t.Fatal(err)
			}
			for _, err = range t4.NewImport(reader).All() {
				if err != nil {
					break
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "line ") {
				t.Errorf("error %v; want a line and %q", err, c.want)
			}
		})
	}
}

func TestStatusOf(t *testing.T) {
	for class, want := range map[string]string{
		"InvalidConfig": history.StatusRejected, "CompilationFailedConfig": history.StatusRejected, "CorrectnessFailedConfig": history.StatusMismatch,
		"TimeoutFailedConfig": history.StatusTimeout, "RuntimeFailedConfig": history.StatusCrash, "": history.StatusCrash,
	} {
		if got := t4.StatusOf(class); got != want {
			t.Errorf("%q is %s; want %s", class, got, want)
		}
	}
}
