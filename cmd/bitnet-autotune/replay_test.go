package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/experiments/report"
)

// cancelling is a stderr that ends a context when it is told of progress.
type cancelling struct {
	strings.Builder
	cancel context.CancelCauseFunc
}

func (c *cancelling) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "1/6 runs") {
		c.cancel(errors.New("interrupt signal received")) // as signal.NotifyContext does
	}
	return c.Builder.Write(p)
}

// Ctrl-C prints what was complete, says how much is missing, and ends with code 3.
func TestReplayInterrupted(t *testing.T) {
	var entries []string
	for x := range 20 {
		entries = append(entries, fmt.Sprintf(`"%d": {"x": %d, "time": %d, "compile_time": 100}`, x+1, x+1, x+3))
	}
	cache := filepath.Join(t.TempDir(), "line.json")
	text := fmt.Sprintf(`{"tune_params_keys": ["x"], "tune_params": {"x": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]}, "cache": {%s}}`, strings.Join(entries, ",\n"))
	if err := os.WriteFile(cache, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var out strings.Builder
			errs := &cancelling{cancel: cancel}
			page := filepath.Join(t.TempDir(), "board.html")
			args := []string{"replay", cache, "--strategies", "random,exhaustive", "--seeds", "3", "--workers", "1", "--report", page, "--format", format}
			if got := run(ctx, args, &out, errs); got != exitInconclusive {
				t.Errorf("code %d, want %d; stderr:\n%s", got, exitInconclusive, errs.String())
			}
			if _, err := os.Stat(page); err != nil {
				t.Error(err)
			}
			if format == "json" {
				var b report.Board
				if err := json.Unmarshal([]byte(out.String()), &b); err != nil || b.Runs != 1 || b.RunsPlanned != 6 || !b.Interrupted {
					t.Errorf("%v, %d of %d runs, interrupted %v; want 1 of 6, true", err, b.Runs, b.RunsPlanned, b.Interrupted)
				}
				return
			}
			if want := "interrupted: 1 of 6 runs ended, 83 % are missing"; !strings.Contains(out.String(), want) {
				t.Errorf("output lacks %q:\n%s", want, out.String())
			}
		})
	}
}
