package memory

import (
	"context"
	"time"
)

// Level is how short memory is, all processes on the device taken together.
type Level int

// The levels, each of which does what those below it do as well.
const (
	Calm   Level = iota
	Trim         // what is idle and cheap to get again is given back
	Shrink       // all that is free is given back, and workspaces shrink
	Refuse       // nothing more is taken from the driver; pools still give out what they hold
)

func (l Level) String() string {
	return [...]string{"calm", "trim", "shrink", "refuse"}[l]
}

// MarshalText implements encoding.TextMarshaler.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Pressure is a change of the level.
type Pressure struct {
	Device        int
	Level, Before Level
	Share         float64 // taken of the total
	Memory        Record
}

// Check asks what the device has, and does what the level of pressure asks for: it trims, adjusts the workspaces and
// tells of a change. An error of the query leaves the level.
func (m *Manager) Check() (Level, error) {
	m.mu.Lock()
	now, err := m.told(m.record.fresh())
	m.mu.Unlock()
	if err != nil {
		return m.Level(), err
	}
	return m.react(now), nil
}

// Level is the level of the last check.
func (m *Manager) Level() Level {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.level
}

// react does what a record asks for.
func (m *Manager) react(now Record) Level {
	m.mu.Lock()
	p := Pressure{Device: m.id, Before: m.level, Share: ratio(now.UsedBytes(), now.TotalBytes), Memory: now}
	p.Level = m.constants.level(m.level, p.Share)
	m.level = p.Level
	if p.Level > p.Before {
		m.counts.PressureEvents++
	}
	if p.Level >= Trim && !m.closed {
		m.warn(m.trim(p.Level >= Shrink))
	}
	var scratches []*Scratch
	for s := range m.scratches {
		scratches = append(scratches, s)
	}
	m.mu.Unlock()
	for _, s := range scratches {
		s.Adjust()
	}
	if p.Level != p.Before {
		m.log.Warn().Int("device", m.id).Stringer("level", p.Level).Stringer("before", p.Before).Float64("share", p.Share).
			Msg("memory pressure")
		if m.notify != nil {
			m.notify(p)
		}
	}
	return p.Level
}

// level is the level for a share that is taken. A level begins at its threshold and ends only the hysteresis below it, so
// that a share that wavers does not make it change all the time.
func (c Constants) level(before Level, share float64) Level {
	thresholds := [...]float64{Calm: 0, Trim: c.TrimLevel, Shrink: c.ShrinkLevel, Refuse: c.RefuseLevel}
	for l := Refuse; l > Calm; l-- {
		if share >= thresholds[l] || l <= before && share >= thresholds[l]-c.Hysteresis {
			return l
		}
	}
	return Calm
}

// Watch checks the pressure in an interval until the context ends.
func (m *Manager) Watch(ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if _, err := m.Check(); err != nil {
			m.log.Warn().Int("device", m.id).Err(err).Msg("memory query")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
