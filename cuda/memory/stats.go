package memory

// Counts are what a manager did since it was made.
type Counts struct {
	Allocations      uint64 `json:"allocations"`
	Frees            uint64 `json:"frees"`
	Direct           uint64 `json:"direct_allocations"`
	OutOfMemory      uint64 `json:"out_of_memory"`
	Retries          uint64 `json:"retries"`  // after giving back what was free
	Failures         uint64 `json:"failures"` // of the driver
	Trims            uint64 `json:"trims"`
	PressureEvents   uint64 `json:"pressure_events"` // rises of the level, and workspaces larger than what is available
	Shrinks          uint64 `json:"workspace_shrinks"`
	Growths          uint64 `json:"workspace_growths"`
	Fallbacks        uint64 `json:"workspace_fallbacks"` // to the CPU
	PeakBytes        uint64 `json:"peak_allocated_bytes"`
	TakenAtPeakBytes uint64 `json:"taken_at_peak_bytes"` // from the driver, when most was allocated
	PeakTakenBytes   uint64 `json:"peak_taken_bytes"`
}

// Stats are the state of a device's memory.
type Stats struct {
	Device         int         `json:"device"`
	Level          Level       `json:"level"`
	Memory         Record      `json:"memory"`
	UsableBytes    uint64      `json:"usable_bytes"`
	AllocatedBytes uint64      `json:"allocated_bytes"`
	TakenBytes     uint64      `json:"taken_bytes"` // from the driver, for pools and directly
	Utilization    float64     `json:"utilization"` // allocated of usable
	Pools          []PoolStats `json:"pools"`
	// Idle is the share of what pools hold that is not in use; it is 1 after everything was freed, and nothing is wrong.
	Idle float64 `json:"idle_share"`
	// Waste is the share of blocks in use that nobody asked for.
	Waste float64 `json:"waste_share"`
	// Fragmentation is the share of what pools hold that is free but cannot be given back: parts of pages and segments.
	Fragmentation float64 `json:"fragmentation"`
	// Efficiency is allocated of taken from the driver, when most was allocated.
	Efficiency float64 `json:"efficiency_at_peak"`
	HitRate    float64 `json:"hit_rate"` // allocations of pools without a call of the driver
	Counts     Counts  `json:"counts"`
}

// Stats returns the state now, with a fresh query of the driver. If that fails, what is free is reckoned from what was
// allocated, and marked as an estimate. It is logged, as a warning where memory is badly fragmented.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.told(m.record.fresh())
	if err != nil {
		now.TotalBytes, now.FreeBytes = m.total, below(m.total, m.allocated)
	}
	s := m.stats(now)
	line := m.log.Info()
	if s.Fragmentation > m.constants.FragmentationWarning || s.Waste > m.constants.FragmentationWarning {
		line = m.log.Warn()
	}
	line.Int("device", m.id).Uint64("allocated_bytes", s.AllocatedBytes).Uint64("total_bytes", s.Memory.TotalBytes).
		Float64("utilization_percent", 100*s.Utilization).Float64("fragmentation", s.Fragmentation).Float64("waste", s.Waste).
		Msg("memory in use")
	return s
}

func (m *Manager) stats(now Record) Stats {
	s := Stats{Device: m.id, Level: m.level, Memory: now, UsableBytes: m.usable, AllocatedBytes: m.allocated, TakenBytes: m.taken,
		Utilization: ratio(m.allocated, m.usable), Counts: m.counts, Pools: []PoolStats{}}
	var sum PoolStats
	for _, p := range m.pools {
		c := p.counts
		c.StuckBytes = p.index.bytes - p.source.releasable()
		s.Pools = append(s.Pools, c)
		sum.HeldBytes += c.HeldBytes
		sum.UsedBytes += c.UsedBytes
		sum.RequestedBytes += c.RequestedBytes
		sum.StuckBytes += c.StuckBytes
		sum.Hits += c.Hits
		sum.Misses += c.Misses
	}
	s.Idle = ratio(sum.HeldBytes-sum.UsedBytes, sum.HeldBytes)
	s.Waste = ratio(sum.UsedBytes-sum.RequestedBytes, sum.UsedBytes)
	s.Fragmentation = ratio(sum.StuckBytes, sum.HeldBytes)
	s.Efficiency = ratio(m.counts.PeakBytes, m.counts.TakenAtPeakBytes)
	s.HitRate = ratio(sum.Hits, sum.Hits+sum.Misses)
	return s
}

// ratio is a of b, 0 of nothing.
func ratio(a, b uint64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
