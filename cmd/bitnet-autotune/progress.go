package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

// progress shows what a run does: one line that is rewritten on a terminal, log lines where there is none.
type progress struct {
	app      *app
	terminal bool
	last     time.Time
	phase    string
	width    int
}

// logEvery spaces the log lines of a run that nobody watches.
const logEvery = 5 * time.Second

func newProgress(a *app) *progress {
	p := &progress{app: a, terminal: !a.quiet && isTerminal(a.err), width: 100}
	if f, ok := a.err.(*os.File); ok && p.terminal {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			p.width = w
		}
	}
	return p
}

func (p *progress) show(e tuner.Event) { p.say(e.Phase+string(e.Regime), p.line(e)) }

// say shows a line; where nobody watches, the first of a phase and then one now and again.
func (p *progress) say(phase, line string) {
	if p.terminal {
		fmt.Fprintf(p.app.err, "\r\x1b[K%s", cut(line, p.width-1))
		return
	}
	if phase == p.phase && time.Since(p.last) < logEvery {
		return
	}
	p.phase, p.last = phase, time.Now()
	p.app.log.Info().Msg(line)
}

func (p *progress) line(e tuner.Event) string {
	parts := []string{fmt.Sprintf("%3.0f s left", e.Left.Seconds()), e.Phase}
	if e.Regime != "" {
		name := regimeName(e.Regime)
		if e.SpaceSize > 0 {
			name += fmt.Sprintf(" %d/%d", e.Evaluations, e.SpaceSize)
		}
		parts = append(parts, name)
	}
	if e.Ratio > 0 {
		parts = append(parts, fmt.Sprintf("best %.2fx the heuristic: %s", e.Ratio, e.Incumbent))
	} else {
		parts = append(parts, e.Text)
	}
	return strings.Join(parts, "  ")
}

// clear removes the progress line before the result is printed.
func (p *progress) clear() {
	if p.terminal {
		fmt.Fprint(p.app.err, "\r\x1b[K")
	}
}

func cut(line string, width int) string {
	if len(line) > width {
		return line[:width]
	}
	return line
}
