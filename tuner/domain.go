package tuner

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// The kinds of target, as Problem.Target, the history and the command name them.
const (
	targetCPU  = "cpu"
	targetCUDA = "cuda"
	targetAuto = "auto" // what a Budget may ask for besides: the best of the others, by measurement
)

// domain is what a problem means on one kind of target: the answers that need no measurement, the settings that may be
// tried, and the table of kernels that these name. Everything else of a run is the same on every target.
type domain interface {
	answers
	settings
	judgement
	kernelTable
}

// answers are known from facts alone.
type answers interface {
	standard() Config                  // what an engine does that nobody tuned
	heuristic() Config                 // the best that facts tell
	starts(target.Regime) []target.Arm // what a search tries first; arms may repeat
}

// settings are the knobs of a regime and how their values make an arm, and back.
type settings interface {
	space(target.Regime) (*bandit.Space, error)
	arm(value func(knob string) string) target.Arm
	values(target.Arm) map[string]string
}

// judgement is what is known of a setting before it is measured.
type judgement interface {
	judge(target.Regime, target.Arm) error // the first field that is not possible here
	narrower(Config) bool                  // it comes from where less was possible, so it says nothing about the best here
	workspace(target.Arm) int64            // bytes besides the weights
}

// kernelTable is what the arms of a domain are made of.
type kernelTable interface {
	signature() string          // agrees where what was learned still holds
	revision(kernel string) int // raised when results or speed may have changed
	layouts() []kernels.Layout  // worth trying
}

// domain returns what p means on its target.
func (p Problem) domain() domain {
	if p.Target == targetCUDA {
		return cudaDomain{p}
	}
	return cpuDomain{p}
}

// on is the problem on another target.
func (p Problem) on(name string) Problem {
	if p.Target == name {
		return p
	}
	p.Target = name
	if len(p.knobs) > 0 {
		p.Layout, _ = p.pinnedLayout()
	}
	return p
}

// Default is the configuration that a tuned one has to beat: what an engine does on the target that nobody tuned, but for the
// knobs that are pinned.
func (p Problem) Default() Config {
	c, _ := p.kept(p.domain().standard())
	return c
}

// Heuristic is the configuration chosen from facts alone, before anything was measured here.
func (p Problem) Heuristic() Config {
	c, _ := p.kept(p.domain().heuristic())
	return c
}

// Space returns the arms of a regime that may be tried, cut by what is known before any measurement. Each cut has its
// reason.
func (p Problem) Space(r target.Regime) (*bandit.Space, error) { return p.domain().space(r) }

// ArmAt returns the arm of a point of a Space.
func (p Problem) ArmAt(s *bandit.Space, point bandit.Point) target.Arm {
	return p.domain().arm(func(knob string) string { return s.Value(point, knob) })
}

// Starts returns the points of a Space that a search asks first, as facts alone choose them. Points may repeat.
func (p Problem) Starts(s *bandit.Space, r target.Regime) []bandit.Point {
	var points []bandit.Point
	for _, a := range p.domain().starts(r) {
		if point, ok := p.pointOf(s, p.obeying(r, a)); ok {
			points = append(points, point)
		}
	}
	return points
}

// pointOf returns the point of an arm, if the space holds it.
func (p Problem) pointOf(s *bandit.Space, a target.Arm) (bandit.Point, bool) {
	return s.Lookup(p.domain().values(a))
}

// workspace returns the bytes that the largest setting of c takes besides the weights.
func (p Problem) workspace(c Config) int64 {
	var most int64
	for _, r := range Regimes {
		most = max(most, p.domain().workspace(c.Arm(r)))
	}
	return most
}

// completed fills in what follows from the settings of c.
func (p Problem) completed(c Config) Config {
	c.WorkspaceBytes = p.workspace(c)
	if p.Target != targetCUDA {
		c.Devices = []string{targetCPU}
		return c
	}
	if p.Card != nil {
		c.Devices = []string{p.Card.UUID}
	}
	if p.Card != nil && p.Card.TotalBytes > 0 {
		need := float64(p.LayoutBytes(c.Layout)+c.WorkspaceBytes) / float64(p.Card.TotalBytes)
		c.GPUMemoryFraction = math.Ceil(need*1000) / 1000
	}
	return c
}

// validate reports the first field of c that is not possible on the target.
func (p Problem) validate(c Config) error {
	if want := p.Default().Strategy; c.Strategy != want {
		return fmt.Errorf("config: strategy %q: on target %s it is %s", c.Strategy, p.Target, want)
	}
	if _, ok := kernels.FormatOf(c.Layout); !ok {
		return fmt.Errorf("config: layout %q: one of %v", c.Layout, kernels.Layouts())
	}
	for _, r := range Regimes {
		if err := p.domain().judge(r, c.Arm(r)); err != nil {
			return fmt.Errorf("config: %s: %w", r, err)
		}
	}
	return nil
}

// key stands for the kernel table and the yardstick, which must agree before a stored cost may be compared with a new
// one: costs are ratios to the yardstick, so another one is another scale.
func (p Problem) key(yardstick target.Arm) string {
	return p.domain().signature() + "/" + shortHash(armJSON(yardstick))
}

// Yardstick reports whether the costs of records with a signature are ratios to an arm.
func Yardstick(signature string, a target.Arm) bool {
	return strings.HasSuffix(signature, "/"+shortHash(armJSON(a)))
}

// identity is what makes the machine the one that something was learned on: on a GPU, also that.
func (p Problem) identity() []probe.Field {
	list := p.Host.Identity()
	if p.Target != targetCUDA || p.Card == nil {
		return list
	}
	c := p.Card
	return append(list,
		probe.Field{Name: "gpu", Value: c.Name},
		probe.Field{Name: "gpu_capability", Value: c.Capability.String()},
		probe.Field{Name: "gpu_memory_gib", Value: strconv.FormatUint(c.TotalBytes>>30, 10)},
		probe.Field{Name: "gpu_driver", Value: strconv.Itoa(c.DriverVersion)},
	)
}

// fingerprint stands for identity.
func (p Problem) fingerprint() string {
	if p.Target != targetCUDA || p.Card == nil {
		return p.Host.Fingerprint()
	}
	return probe.Fingerprint(p.identity())
}
