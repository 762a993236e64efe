package dashboard

import (
	"cmp"
	"context"
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// spaces are the parts of the search spaces that were measured.
type spaces struct {
	Regimes []regimeSpace `json:"regimes"`
	Damage  string        `json:"damage,omitempty"`
}

// regimeSpace is what was measured of one regime on one target.
type regimeSpace struct {
	Target    string        `json:"target"`
	Regime    target.Regime `json:"regime"`
	Reference string        `json:"reference"`
	Cells     []measured    `json:"cells"`
}

// measured is an arm with what is known of it.
type measured struct {
	Label    string         `json:"label"`
	Kernel   string         `json:"kernel"`
	Layout   kernels.Layout `json:"layout"`
	Blocking string         `json:"blocking"`
	Batch    int            `json:"batch"`
	Threads  int            `json:"threads"`
	Ratio    float64        `json:"ratio"` // times as fast as the reference, median; 0 = not measured
	Rate     float64        `json:"tokens_per_second"`
	Samples  int            `json:"samples"`
	Status   string         `json:"status"` // of the last measurement
	Serving  bool           `json:"serving"`
	Default  bool           `json:"default"`
}

func (s *Server) space(ctx context.Context, name string) (any, error) {
	a, plan, err := s.archiveAndPlan(ctx, name)
	if err != nil {
		return nil, err
	}
	shown := spaces{Regimes: []regimeSpace{}, Damage: a.damage}
	for _, g := range a.groups() {
		shown.Regimes = append(shown.Regimes, a.space(g, plan))
	}
	return shown, nil
}

// archiveAndPlan is what the history holds of a model, and what answers for it now.
func (s *Server) archiveAndPlan(ctx context.Context, name string) (*archive, tuner.Plan, error) {
	a, err := s.archive(ctx, name)
	if err != nil {
		return nil, tuner.Plan{}, err
	}
	plan, err := s.opt.Tuner.Plan(ctx, name)
	return a, plan, err
}

func (a *archive) space(g group, plan tuner.Plan) regimeSpace {
	arms := a.comparable(g, a.newest(g))
	cost, name := reference(g, arms, a.runs)
	shown := regimeSpace{Target: g.target, Regime: g.regime, Reference: name, Cells: []measured{}}
	v, _ := proof(a.runs, g)
	for _, arm := range arms {
		shown.Cells = append(shown.Cells, measured{
			Label: arm.arm.String(), Kernel: arm.arm.Kernel, Layout: arm.arm.Layout, Blocking: blocking(arm.arm), Batch: arm.arm.Batch, Threads: arm.arm.Threads,
			Ratio: arm.ratio(cost), Rate: arm.rate(), Samples: len(arm.costs), Status: arm.status,
			Serving: arm.arm == plan.Config.Arm(g.regime), Default: arm.arm == v.Default,
		})
	}
	slices.SortFunc(shown.Cells, func(x, y measured) int {
		return cmp.Or(cmp.Compare(y.Ratio, x.Ratio), cmp.Compare(x.Label, y.Label))
	})
	return shown
}

// table is the best arm of every kernel in each regime, beside the host's limits.
type table struct {
	ReadBandwidth float64 `json:"read_bandwidth_bytes_per_second"` // of a plain read loop, in the newest run that took it; 0 unknown
	ReadThreads   int     `json:"read_threads"`
	Residency     string  `json:"residency"`
	Peak          float64 `json:"int8_peak_ops_per_second"` // 0: the history has none; the bench verb measures it
	Rows          []row   `json:"rows"`
	Note          string  `json:"note"`
	Damage        string  `json:"damage,omitempty"`
}

// row is a kernel in a regime.
type row struct {
	Target string        `json:"target"`
	Regime target.Regime `json:"regime"`
	measured
	Bytes    float64 `json:"bytes_per_second"` // of packed weights
	Ops      float64 `json:"ops_per_second"`   // two for each weight and token
	Limit    string  `json:"limit"`            // "read" where one is known that holds for the row
	Fraction float64 `json:"fraction_of_limit"`
	Arms     int     `json:"arms"` // of this kernel that were measured
}

// limitRead is the limit of a decode: the weights are read once for each token.
const limitRead = "read"

const tableNote = "each row is the best setting of a kernel over all ternary matmuls of the model, all layers in order; a tune measures no single shape, bench does"

func (s *Server) kernels(ctx context.Context, name string) (any, error) {
	a, plan, err := s.archiveAndPlan(ctx, name)
	if err != nil {
		return nil, err
	}
	shown := table{Rows: []row{}, Note: tableNote, Damage: a.damage}
	for _, r := range a.runs {
		if roof := r.proof.Roofline; r.Target == cpu && roof.ReadBandwidth > 0 {
			shown.ReadBandwidth, shown.ReadThreads, shown.Residency = roof.ReadBandwidth, roof.ReadThreads, roof.Residency
			break
		}
	}
	for _, g := range a.groups() {
		best := map[string]int{} // by kernel, in rows
		for _, m := range a.space(g, plan).Cells {
			if i, ok := best[m.Kernel]; ok {
				shown.Rows[i].Arms++
				continue
			}
			best[m.Kernel] = len(shown.Rows)
			shown.Rows = append(shown.Rows, newRow(g, m, plan, a.model, shown.ReadBandwidth))
		}
	}
	return shown, nil
}

// newRow relates a setting to what limits it. The row serves where its kernel does, maybe with another setting.
func newRow(g group, m measured, plan tuner.Plan, of model.Model, bandwidth float64) row {
	m.Serving = plan.Config.Arm(g.regime).Kernel == m.Kernel
	r := row{Target: g.target, Regime: g.regime, measured: m, Arms: 1}
	r.Ops = 2 * float64(of.TernaryWeights()) * m.Rate
	bytes := tuner.Problem{Model: of, Target: g.target}.LayoutBytes(m.Layout)
	r.Bytes = float64(bytes) * m.Rate / float64(max(1, m.Batch))
	if g.target == cpu && g.regime == target.Decode && bandwidth > 0 && m.Rate > 0 {
		r.Limit, r.Fraction = limitRead, r.Bytes/bandwidth
	}
	return r
}
