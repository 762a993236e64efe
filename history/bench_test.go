package history

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func BenchmarkAppend(b *testing.B) {
	s := openTest(b, b.TempDir())
	for seq := uint32(0); b.Loop(); seq += 10 {
		must(b, s.Append(context.Background(), samples(1, seq, seq+10)...))
	}
}

// BenchmarkAppendToLarge appends ten records to a database of 32,000; op=vet is what looking at it costs when
// somebody else has written it.
func BenchmarkAppendToLarge(b *testing.B) {
	s := openTest(b, b.TempDir())
	seq := uint32(0)
	for ; seq < 32_000; seq += 500 {
		must(b, s.Append(context.Background(), samples(1, seq, seq+500)...))
	}
	b.Run("op=append", func(b *testing.B) {
		for b.Loop() {
			must(b, s.Append(context.Background(), samples(1, seq, seq+10)...))
			seq += 10
		}
	})
	b.Run("op=vet", func(b *testing.B) {
		for b.Loop() {
			_, err := preflight(s.databasePath())
			must(b, err)
		}
	})
}

func BenchmarkPublish(b *testing.B) {
	s := openTest(b, b.TempDir())
	for i := 0; b.Loop(); i++ {
		must(b, s.Publish(context.Background(), learned(modelA, "decode", i)))
	}
}

// BenchmarkRecords reads the one record of a run among 10,000 of another target.
func BenchmarkRecords(b *testing.B) {
	s := openTest(b, b.TempDir())
	must(b, s.Append(context.Background(), samples(1, 0, 10_000)...))
	one := sample(2, 1)
	one.Target = "cuda"
	must(b, s.Append(context.Background(), one))
	for name, f := range map[string]Filter{
		"want=1":     {Host: hostA, Model: modelA, Target: "cuda", Regime: "decode"},
		"want=10000": {Host: hostA, Model: modelA, Target: "cpu", Regime: "decode"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				must(b, s.Records(context.Background(), f, func(Record) error { return nil }))
			}
		})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	dir := b.TempDir()
	must(b, openTest(b, dir).Publish(context.Background(), learned(modelA, "decode", 1)))
	old := time.Now().Add(-time.Hour)
	must(b, os.Chtimes(filepath.Join(dir, snapshotName), old, old))
	b.Run("read=file", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ReadSnapshot(dir)
		}
	})
	for name, every := range map[string]time.Duration{"read=stat": 0, "read=memory": time.Hour} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r := NewReader(dir)
			r.Every = every
			for b.Loop() {
				r.Load()
			}
		})
	}
}

func BenchmarkRecordCodec(b *testing.B) {
	r := sample(1, 1)
	key, value, err := r.encode()
	must(b, err)
	b.Run("op=encode", func(b *testing.B) {
		for b.Loop() {
			r.encode()
		}
	})
	b.Run("op=decode", func(b *testing.B) {
		for b.Loop() {
			decodeRecord(key, value)
		}
	})
	b.Logf("key %d bytes, value %d bytes", len(key), len(value))
}
