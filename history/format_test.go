package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What is on disks out there cannot be renumbered or renamed.
func TestPersistentNumbersAndNames(t *testing.T) {
	got := fmt.Sprint(FormatV1, FormatV2, FormatNewest, FormatOldestReader, codecUint, codecText, codecJSON, codecRecord, slotCurrent, slotPrevious,
		lockName, databaseName, snapshotName, quarantineName, spoolName, backupName, olderName, snapshotMagic, snapshotHeaderBytes, magic,
		markMagic, markBytes, spoolMagic, spoolKinds)
	want := fmt.Sprint(Format(1), Format(2), Format(2), Format(1), codec(1), codec(2), codec(3), codec(4), 0, 1,
		"history.lock", "history.db", "current.cfg", "quarantine", "spool", "history.bak", "history.bak.1", "BNACFG\r\n", 32, "bitnet-autotune history",
		"BNAMRK\r\n", 60, "BNASPL\r\n", map[byte][]byte{1: []byte("sample"), 2: []byte("run"), 3: []byte("config")})
	if got != want {
		t.Errorf("got %s\nwant %s\nA new version needs a migration and a golden database of the old one.", got, want)
	}
	if names := fmt.Sprintf("%s %s", buckets, statuses); names != "[meta sample run config pin agg] [ok timeout crash out_of_memory mismatch rejected censored]" {
		t.Errorf("names changed: %s", names)
	}
}

// The bytes of one record, field by field as FORMAT.md shows them.
func TestRecordBytes(t *testing.T) {
	r := sample(0x0102030405060708, 9)
	r.Costs, r.Samples, r.Note = []float64{1}, []float64{2}, "n"
	key, value, err := r.encode()
	must(t, err)
	config := `{"kernel":"mul/i2s/avx2","threads":3}`
	wantKey := "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xefcpu\x00decode\x00" +
		"\x5d\x7b\xb4\x2b\xd0\xd0\x96\x1e\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x00\x09"
	if string(key) != wantKey {
		t.Errorf("key\ngot  %x\nwant %x", key, wantKey)
	}
	wantValue := "\x04" + "\xaa\xdc\xab\xd5\x9e\xaf\x84\xea\x31" + "\x80\xca\xb5\xee\x01" + "\x02ok" + "\x0cmul/i2s/avx2" + "\x06" + "\x1000f1e2d3c4b5a697" +
		"\x25" + config + "\x01\x3f\xf0\x00\x00\x00\x00\x00\x00" + "\x01\x40\x00\x00\x00\x00\x00\x00\x00" + "\x01n"
	if got := string(value[:len(value)-4]); got != wantValue {
		t.Errorf("value\ngot  %q\nwant %q", got, wantValue)
	}
}

// goldenContent is what the stored databases hold. That of version 2 has pruned records as well.
func goldenContent() (recs []Record, runs []Run, all []Learned, pin Pin) {
	recs = samples(5, 0, 20)
	recs[3].Status, recs[3].Costs, recs[3].Samples, recs[3].Note = StatusOutOfMemory, nil, nil, "mmap: cannot allocate memory"
	recs[4].Target, recs[4].Regime, recs[4].Host = "engine:llama.cpp", "prefill", hostB
	runs = []Run{{ID: 5, Started: epoch, Finished: epoch.Add(time.Minute), Host: hostA, Model: modelA, Target: "cpu", Objective: "decode",
		Strategy: "halving", Seed: 42, Budget: time.Minute, Verdict: "ADOPT", Facts: map[string]string{"governor": "performance"}, Certificate: json.RawMessage(`{"ratio":1.25}`)}}
	all = []Learned{learned(modelA, "decode", 20), learned(modelB, "prefill", 4)}
	return recs, runs, all, Pin{Model: modelB, Config: json.RawMessage(`{"threads":1}`), By: "ops", At: epoch}
}

// writeGolden makes the stored files of the newest version. They are written once and then kept for ever.
func writeGolden(t *testing.T) {
	ctx := context.Background()
	recs, runs, all, pin := goldenContent()
	s := openTest(t, t.TempDir())
	must(t, s.Append(ctx, samples(4, 0, 7*8)...))
	_, err := s.Prune(ctx, Retention{PerCell: keptPerCell})
	must(t, err)
	must(t, s.Append(ctx, recs...))
	must(t, s.PutRun(ctx, runs[0]))
	must(t, s.Publish(ctx, learned(modelA, "decode", 10))) // becomes the previous version
	for _, l := range all {
		must(t, s.Publish(ctx, l))
	}
	must(t, s.SetPin(ctx, pin))
	for name, suffix := range map[string]string{databaseName: ".db", snapshotName: ".cfg"} {
		content, err := os.ReadFile(s.path(name))
		must(t, err)
		must(t, os.WriteFile(fmt.Sprintf("testdata/v%d%s", FormatNewest, suffix), content, 0o644))
	}
}

func TestGoldenDatabases(t *testing.T) {
	if *update {
		writeGolden(t)
	}
	for version := FormatV1; version <= FormatNewest; version++ {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) { readGolden(t, version) })
	}
}

// readGolden opens a stored database and expects what was stored.
func readGolden(t *testing.T, version Format) {
	ctx := context.Background()
	recs, runs, all, pin := goldenContent()
	s := openTest(t, openGolden(t, fmt.Sprint("v", version)))
	if diff := cmp.Diff(recs, bySeq(collectRecords(t, s, Filter{Run: 5}))); diff != "" {
		t.Errorf("records (-want +got)\n%s", diff)
	}
	gotRuns, err := s.Runs(ctx)
	must(t, err)
	if diff := cmp.Diff(runs, gotRuns); diff != "" {
		t.Errorf("runs (-want +got)\n%s", diff)
	}
	snap, err := ReadSnapshot(s.dir)
	must(t, err)
	if diff := cmp.Diff(&Snapshot{Generation: snap.Generation, Learned: all, Pins: []Pin{pin}}, snap); diff != "" {
		t.Errorf("snapshot (-want +got)\n%s", diff)
	}
	if old := previous(t, s, all[0]); old.Evaluations != 10 {
		t.Errorf("previous version: %+v", old)
	}
	if sums, err := s.Aggregates(ctx, Filter{}); err != nil || version >= FormatV2 && (len(sums) != 7 || sums[0].Statuses[StatusOK] != 4) {
		t.Errorf("aggregates: %+v, %v, want 7 of 4 records each", sums, err)
	}
	must(t, s.Append(ctx, samples(6, 0, 3)...)) // it can be written to as well
}

func TestExportImport(t *testing.T) {
	ctx := context.Background()
	recs, _, _, _ := goldenContent()
	from := openTest(t, t.TempDir())
	must(t, from.Append(ctx, recs...))
	must(t, from.Append(ctx, samples(6, 0, importBatch+7)...))
	var exported bytes.Buffer
	must(t, from.Export(ctx, &exported, Filter{}))

	to := openTest(t, t.TempDir())
	text := exported.Bytes()
	for _, want := range []int{len(recs) + importBatch + 7, 0} {
		if n, err := to.Import(ctx, bytes.NewReader(text)); n != want || err != nil {
			t.Errorf("Import: %d, %v; want %d", n, err, want)
		}
	}
	if diff := cmp.Diff(collectRecords(t, from, Filter{}), collectRecords(t, to, Filter{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var part bytes.Buffer
	must(t, to.Export(ctx, &part, Filter{Host: hostB}))
	if n := bytes.Count(part.Bytes(), []byte("\n")); n != 1 {
		t.Errorf("%d lines of one host, want 1", n)
	}
}

func TestImportNamesTheLine(t *testing.T) {
	good, err := Marshal(sample(1, 1))
	must(t, err)
	other, err := Marshal(sample(1, 2))
	must(t, err)
	for name, test := range map[string]struct{ text, want string }{
		"not JSON":       {string(good) + "\n\n{nonsense\n" + string(other), "line 3: "},
		"truncated":      {string(good) + "\n" + string(other[:40]), "line 2: unexpected EOF"},
		"unknown field":  {string(good) + "\n" + `{"run":"1","colour":"red"}`, `line 2: json: unknown field "colour"`},
		"two documents":  {string(good) + "\n" + string(other) + string(other), "line 2: more than one JSON document"},
		"invalid record": {string(good) + "\n" + string(bytes.Replace(other, []byte(hostA), []byte("abc"), 1)), `line 2: host "abc"`},
		"endless line":   {string(good) + "\n" + string(bytes.Repeat([]byte("x"), 5<<20)), "line 2: bufio.Scanner: token too long"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openTest(t, t.TempDir())
			n, err := s.Import(context.Background(), bytes.NewReader([]byte(test.text)))
			if n != 1 || err == nil || !bytes.Contains([]byte(err.Error()), []byte("history: import: "+test.want)) {
				t.Errorf("%d, %v; want 1 and %q", n, err, test.want)
			}
			if got := collectRecords(t, s, Filter{}); len(got) != 1 {
				t.Errorf("%d records stored, want the one before the bad line", len(got))
			}
		})
	}
}

func TestImportConflictNamesTheLines(t *testing.T) {
	s := openTest(t, t.TempDir())
	other := sample(1, 2)
	other.Note = "not what the line says"
	must(t, s.Append(context.Background(), other))
	var text []byte
	for seq := range uint32(3) {
		line, err := Marshal(sample(1, seq))
		must(t, err)
		text = append(append(text, line...), '\n')
	}
	if n, err := s.Import(context.Background(), bytes.NewReader(text)); n != 0 || !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "lines 1 to 3: ") {
		t.Errorf("%d, %v; want ErrConflict in lines 1 to 3", n, err)
	}
}

// A checksum makes random damage visible; behind it, a decoder must hold against any payload.
func FuzzDecodeRecord(f *testing.F) {
	key, value, err := sample(1, 1).encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(key, value[1:len(value)-4])
	f.Add(key, []byte{})
	f.Add([]byte("short"), []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, key, payload []byte) {
		r, err := decodeRecord(key, seal(key, codecRecord, payload))
		if err == nil && hash64(r.Config) == 0 {
			t.Error("a record without a config")
		}
	})
}

func FuzzDecodeSnapshot(f *testing.F) {
	content, err := (&Snapshot{Learned: []Learned{learned(modelA, "decode", 1)}}).encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Fuzz(func(t *testing.T, content []byte) {
		if snap, err := decodeSnapshot(content); (snap == nil) == (err == nil) {
			t.Errorf("%v, %v", snap, err)
		}
	})
}
