package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"time"
)

// decided is what a daemon says of a tune that came to something.
var decided = regexp.MustCompile(`(ADOPT|KEEP_DEFAULT): [0-9.]+ times the default`)

// complete serves until the daemon beside it has decided, and says how long that took.
func (s study) complete(ctx context.Context) (string, error) {
	serve, err := s.service(ctx)
	if err != nil {
		return "", err
	}
	d, err := s.daemon("--quiet-for", "5s")
	if err != nil {
		return "", err
	}
	defer d.kill()
	s.settle = 0
	s.length = 10 * time.Second
	whole := half{Tuner: true}
	for begin := time.Now(); ; {
		h := half{Tuner: true}
		if err := s.half(ctx, serve, d, &h); err != nil {
			return "", err
		}
		if whole.Begin == 0 {
			whole.Begin = h.Begin
		}
		whole.Latencies = append(whole.Latencies, h.Latencies...)
		said, err := os.ReadFile(d.log)
		if err != nil {
			return "", err
		}
		verdict := decided.Find(said)
		if verdict == nil {
			continue
		}
		child, own := d.used()
		took := time.Since(begin)
		halves := []half{whole}
		if err := s.meet(halves, d); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s after %.0f s beside %g requests a second (p50 %.2f ms, p99 %.2f ms): children worked for %.1f s (%.1f %% of the time) and used %.1f CPU s, the daemon %.1f.\n",
			verdict, took.Seconds(), s.rate, quantile(whole.Latencies, 0.5), quantile(whole.Latencies, 0.99), halves[0].Worked, 100*halves[0].Worked/took.Seconds(), child.Seconds(), own.Seconds()), nil
	}
}
