package engine

import (
	"cmp"
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
)

// between is how many candidates run from one default to the next: each has a default right before or after it.
const between = 2

// spare is a setting without the values that the engine takes by itself: to name them is not another setting.
func (s *session) spare(setting Setting) Setting {
	kept := maps.Clone(setting)
	maps.DeleteFunc(kept, func(knob, value string) bool { return s.standby[knob] == value })
	return kept
}

// evaluate runs a plan's processes and says whether all went well. The default runs again when its turn comes. What an
// earlier session ran as often as it is asked for by now does not run again.
func (s *session) evaluate(ctx context.Context, p Plan, regimes []string) bool {
	for setting, list := range p.processes(regimes) {
		if s.refused(setting, list) {
			return false
		}
		if len(setting) > 0 && s.recalled(setting, list) {
			continue
		}
		if ctx.Err() != nil || s.over() {
			return false
		}
		if len(setting) > 0 {
			s.beside(ctx)
		}
		if s.over() {
			return false
		}
		if s.start(ctx, setting, list).Status != OK {
			return false
		}
	}
	return true
}

// recalled counts how often a setting was asked for, and reports whether it has run as often.
func (s *session) recalled(setting Setting, regimes []string) bool {
	enough := true
	for _, r := range regimes {
		s.asked[r+" "+setting.String()]++
		enough = enough && s.times(r, setting) >= s.asked[r+" "+setting.String()]
	}
	return enough
}

// beside runs the default if a candidate would have none right before or after it otherwise.
func (s *session) beside(ctx context.Context) {
	if s.sinceDefault() >= between {
		s.start(ctx, nil, s.regimes())
	}
}

// processes are the settings of a plan with the regimes that each is for.
func (p Plan) processes(regimes []string) func(yield func(Setting, []string) bool) {
	return func(yield func(Setting, []string) bool) {
		done := map[string]bool{}
		for _, r := range regimes {
			if done[p[r].String()] {
				continue
			}
			done[p[r].String()] = true
			var same []string
			for _, other := range regimes {
				if maps.Equal(p[other], p[r]) {
					same = append(same, other)
				}
			}
			if !yield(p[r], same) {
				return
			}
		}
	}
}

// refused reports whether a setting is not possible, or failed before: it is not tried again.
func (s *session) refused(setting Setting, regimes []string) bool {
	if s.what.Reject != nil && s.what.Reject(setting) != nil {
		return true
	}
	return slices.ContainsFunc(regimes, func(r string) bool { return s.failed[r+" "+setting.String()] != "" })
}

func (s *session) sinceDefault() int {
	n := 0
	for _, m := range slices.Backward(s.planned) {
		if m.isDefault() {
			break
		}
		n++
	}
	return n
}

// controls is how many runs of the default a candidate is compared with, the nearest ones: more would follow drift worse,
// fewer carry their own noise into every ratio.
const controls = 4

// ratio is the logarithm of what a setting costs in a regime over what the default costs around it: the mean over its runs.
func (s *session) ratio(regime string, setting Setting) (mean float64, ok bool) {
	if len(setting) == 0 {
		return 0, true
	}
	var sum float64
	n := 0
	for i, m := range s.planned {
		if m.Status != OK || !maps.Equal(m.Setting, setting) || m.cost(regime) == 0 {
			continue
		}
		if control, known := s.control(regime, i); known {
			sum += math.Log(m.cost(regime)) - control
			n++
		}
	}
	return sum / float64(max(1, n)), n > 0
}

// control is the mean logarithm of the default's cost in the runs of the same session nearest to the i-th.
func (s *session) control(regime string, i int) (float64, bool) {
	type at struct {
		distance int
		log      float64
	}
	var list []at
	for j, m := range s.planned {
		if m.isDefault() && m.cost(regime) > 0 && m.Session == s.planned[i].Session {
			list = append(list, at{max(i-j, j-i), math.Log(m.cost(regime))})
		}
	}
	slices.SortStableFunc(list, func(a, b at) int { return a.distance - b.distance })
	list = list[:min(controls, len(list))]
	var sum float64
	for _, a := range list {
		sum += a.log
	}
	return sum / float64(max(1, len(list))), len(list) > 0
}

// relative is the cost of the i-th process over that of the default around it, by regime; nil if it has none.
func (s *session) relative(i int) map[string]float64 {
	m := s.planned[i]
	if m.Status != OK {
		return nil
	}
	ratios := map[string]float64{}
	for _, r := range m.Regimes {
		if control, ok := s.control(r, i); ok {
			ratios[r] = m.cost(r) / math.Exp(control)
		}
	}
	return ratios
}

// explore goes through the stages.
func (s *session) explore(ctx context.Context) {
	standard := maps.Clone(s.best) // which the stages change
	defer func() {
		if ctx.Err() == nil && s.spent+len(s.runs) < s.maxRuns() {
			s.beside(ctx)
		}
		s.prefer(standard)
	}()
	for _, k := range s.stage(Threads) {
		s.phase = "threads"
		s.bisect(ctx, k)
	}
	s.threaded = s.stopped == "" && ctx.Err() == nil
	apart := s.join()
	s.phase = "batch"
	s.reserved = len(s.regimes())
	s.evaluate(ctx, s.best, s.regimes()) // the luckiest of several is not as good as it looked
	for _, k := range s.stage(Batch) {
		s.climb(ctx, k)
	}
	s.phase = "others"
	changed := false
	for _, k := range s.stage(Others) {
		changed = s.switchover(ctx, k) || changed
	}
	s.phase = "interactions"
	cut := s.stopped
	s.reserved, s.stopped = 0, ""
	s.part(ctx, apart)
	if changed {
		for _, k := range s.stage(Threads) {
			s.nudge(ctx, k)
		}
	}
	s.stopped = orDefault(s.stopped, cut)
	if s.through = s.stopped == "" && ctx.Err() == nil; !s.through {
		return
	}
	s.phase = "confirm"
	s.confirm(ctx)
}

// join makes the plan one setting for all regimes, that whose request takes least among those that all ran with, and returns
// the plan as it was: what is tried next takes one process and not one for each regime.
func (s *session) join() (apart Plan) {
	apart = s.best
	joint, least := Setting(nil), 1.0
	for _, m := range s.planned {
		if !s.alike(m.Setting, nil) { // an earlier session may have come further
			continue
		}
		cost, all := 0.0, true
		for _, r := range s.regimes() {
			log, ok := s.ratio(r, m.Setting)
			cost += s.shares[r] * math.Exp(log)
			all = all && ok
		}
		if all && cost < least {
			joint, least = m.Setting, cost
		}
	}
	s.best = Plan{}
	for _, r := range s.regimes() {
		s.best[r] = joint
	}
	return apart
}

// part gives each regime its own values of the knobs of stage Threads again, beside what all were found to gain from since.
func (s *session) part(ctx context.Context, apart Plan) {
	joint := s.best
	s.best = Plan{}
	for _, r := range s.regimes() {
		s.best[r] = maps.Clone(joint[r])
		for _, k := range s.stage(Threads) {
			delete(s.best[r], k.Name)
			if value, ok := apart[r][k.Name]; ok {
				s.best[r] = s.best[r].With(k.Name, value)
			}
		}
	}
	s.evaluate(ctx, s.best, s.regimes())
}

func (s *session) stage(stage Stage) (list []Knob) {
	for _, k := range s.what.Knobs {
		if k.Stage == stage {
			list = append(list, k)
		}
	}
	return list
}

// heavy are the regimes of a knob that make up a part of the request worth a process.
func (s *session) heavy(k Knob) (names []string) {
	for _, r := range s.regimes() {
		if s.shares[r] >= 0.02 && (len(k.Regimes) == 0 || slices.Contains(k.Regimes, r)) {
			names = append(names, r)
		}
	}
	return names
}

// flat is the difference of two costs that is not worth a process: the noise of a run is larger.
const flat = 0.02

// bisect finds the best value of a unimodal knob for each regime at once: all values by halves first, and then the
// middles on either side of the best, until there is nothing between or the middles are no better. One process tells of
// every regime, so that the second curve costs only where it bends elsewhere; a regime is left out where its curve has
// fallen already.
func (s *session) bisect(ctx context.Context, k Knob) {
	tried := map[int]bool{}
	try := func(i int) {
		if i < 0 || i >= len(k.Values) || tried[i] {
			return
		}
		tried[i] = true
		if plan := s.racing(k, i, tried); len(plan) > 0 && len(s.alone(k, i)) > 0 { // else it is the default, which has run
			s.evaluate(ctx, plan, slices.Sorted(maps.Keys(plan)))
		}
	}
	for i := len(k.Values); i >= 1; i /= 2 {
		try(i - 1)
	}
	for _, regime := range s.heavyFirst(k) {
		for {
			best, left, right := s.bracket(k, regime, tried)
			if best < 0 {
				break
			}
			before := len(tried)
			fine := max(1, (best+1)/4) // steps that make less of a difference than the noise of a process
			if right > best+fine {
				try((best + min(right, len(k.Values)-1) + 1) / 2)
			}
			if left < best-fine {
				try((best + max(left, 0)) / 2)
			}
			if len(tried) == before || !s.bends(k, regime, tried, best) {
				break
			}
		}
	}
	for _, r := range s.regimes() {
		if best, _, _ := s.bracket(k, r, tried); best >= 0 {
			with := s.spare(s.best[r].With(k.Name, k.Values[best]))
			if log, ok := s.ratio(r, with); ok && log < 0 {
				s.best[r] = with
			}
		}
	}
}

// racing is the i-th value of a knob for the regimes in which it may be the best; none if it cannot be in a heavy one.
func (s *session) racing(k Knob, i int, tried map[int]bool) Plan {
	plan, heavy := Plan{}, false
	for _, r := range s.regimes() {
		if s.hopeless(k, r, i, tried) {
			continue
		}
		plan[r] = s.alone(k, i)
		heavy = heavy || slices.Contains(s.heavy(k), r)
	}
	if !heavy {
		return nil
	}
	return plan
}

// hopeless reports whether the i-th value cannot be the best of a regime: of a unimodal curve nothing better lies beyond two
// values that are clearly worse than the best, or one that is much worse; and nothing exceeds the ceiling.
func (s *session) hopeless(k Knob, regime string, i int, tried map[int]bool) bool {
	best, _, _ := s.bracket(k, regime, tried)
	if best < 0 {
		return false
	}
	least, _ := s.ratio(regime, s.alone(k, best))
	top := s.ceiling(k, regime, len(k.Values)-1)
	if fastest := math.Exp(-least); s.ceiling(k, regime, i) < fastest && fastest <= top { // one that the best exceeds is none
		return true
	}
	worse := 0
	for j := range tried {
		if i < j && j < best || best < j && j < i {
			switch log, ok := s.ratio(regime, s.alone(k, j)); {
			case ok && log-least >= 16*flat:
				worse += 2
			case !ok || log-least >= 4*flat:
				worse++
			}
		}
	}
	return worse >= 2
}

// ceiling is the most that the rate of a regime can be with the i-th value of a knob, over the default's.
func (s *session) ceiling(k Knob, regime string, i int) float64 {
	if s.opt.Ceiling == nil {
		return math.Inf(1)
	}
	most, own := s.opt.Ceiling(regime, k.Name, k.Values[i]), perSecond(s.costs(regime, nil))
	if most <= 0 || own <= 0 {
		return math.Inf(1)
	}
	return most / own
}

// alone is the i-th value of a knob, all else being the engine's own.
func (s *session) alone(k Knob, i int) Setting { return s.spare(Setting{k.Name: k.Values[i]}) }

// heavyFirst are the regimes of a knob, that with the largest share first.
func (s *session) heavyFirst(k Knob) []string {
	list := s.heavy(k)
	slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(s.shares[b], s.shares[a]) })
	return list
}

// bracket is the best value tried and the tried ones on either side of it, -1 and len where there is none.
func (s *session) bracket(k Knob, regime string, tried map[int]bool) (best, left, right int) {
	best, left, right = -1, -1, len(k.Values)
	var least float64
	for _, i := range slices.Sorted(maps.Keys(tried)) {
		log, ok := s.ratio(regime, s.alone(k, i))
		if ok && (best < 0 || log < least) {
			best, least = i, log
		}
	}
	for i := range tried {
		if i < best {
			left = max(left, i)
		}
		if i > best {
			right = min(right, i)
		}
	}
	return best, left, right
}

// bends reports whether the curve around the best value still tells its sides apart, so that there may be more between.
func (s *session) bends(k Knob, regime string, tried map[int]bool, before int) bool {
	best, left, right := s.bracket(k, regime, tried)
	if best != before {
		return true
	}
	at := func(i int) float64 {
		log, ok := s.ratio(regime, s.alone(k, max(0, min(i, len(k.Values)-1))))
		if !ok {
			return math.Inf(1)
		}
		return log
	}
	here := at(best)
	fine := max(1, (best+1)/4)
	return left < best-fine && at(left)-here > flat || right > best+fine && at(right)-here > flat
}

// climb moves an ordered knob from the engine's own value while it gains.
func (s *session) climb(ctx context.Context, k Knob) {
	at := slices.Index(k.Values, s.standby[k.Name])
	if at < 0 {
		at = len(k.Values) - 1
	}
	for _, step := range []int{1, -1} {
		moved := false
		for next := at + step; next >= 0 && next < len(k.Values) && s.improves(ctx, k, k.Values[next]); next += step {
			at, moved = next, true
		}
		if moved {
			break
		}
	}
}

// switchover tries the other values of a knob, one at a time.
func (s *session) switchover(ctx context.Context, k Knob) bool {
	changed := false
	for _, v := range k.Values {
		if v != s.standby[k.Name] && s.improves(ctx, k, v) {
			changed = true
		}
	}
	return changed
}

// nudge tries the neighbours of what was found for a knob, now that others have changed.
func (s *session) nudge(ctx context.Context, k Knob) {
	for _, r := range s.heavyFirst(k) {
		at := slices.Index(k.Values, orDefault(s.best[r][k.Name], s.standby[k.Name]))
		for _, next := range []int{at + 1, at - 1} {
			if at >= 0 && next >= 0 && next < len(k.Values) {
				one := k
				one.Regimes = []string{r}
				s.improves(ctx, one, k.Values[next])
			}
		}
	}
}

// improves tries a value in the best plan and takes it over where it gains. A gain that may be luck is measured again.
func (s *session) improves(ctx context.Context, k Knob, value string) bool {
	regimes := s.heavy(k)
	if len(regimes) == 0 {
		return false
	}
	plan := s.spared(s.best.with(k.Name, value, s.regimes()))
	if k.Stage == Threads {
		plan = s.spared(s.best.with(k.Name, value, regimes))
	}
	if k.Beside != "" && s.less(plan[regimes[0]][k.Beside], s.standby[k.Beside], value) {
		plan = plan.with(k.Beside, value, s.regimes())
	}
	if !s.race(ctx, plan, regimes) {
		return false
	}
	s.best = plan
	return true
}

// How a candidate is judged: it runs again, once, unless the difference is clearly more than noise.
const (
	looks = 2
	clear = 2 * flat
)

// race runs a plan beside the best so far and reports whether it gains. The best so far looked lucky when it was taken, and
// has to have run again since for others to be judged by it.
func (s *session) race(ctx context.Context, plan Plan, regimes []string) bool {
	for range looks {
		if !s.evaluate(ctx, plan, regimes) || s.lucky(regimes) && !s.evaluate(ctx, s.best, regimes) {
			return false
		}
		if math.Abs(s.gain(plan, regimes)-s.minGain()) > clear {
			break
		}
	}
	return s.gain(plan, regimes) >= s.minGain()
}

// lucky reports whether the best so far ran only once in one of the regimes.
func (s *session) lucky(regimes []string) bool {
	return slices.ContainsFunc(regimes, func(r string) bool { return len(s.best[r]) > 0 && s.times(r, s.best[r]) < 2 })
}

// spared is a plan of spare settings.
func (s *session) spared(p Plan) Plan {
	q := Plan{}
	for r, setting := range p {
		q[r] = s.spare(setting)
	}
	return q
}

// less reports whether what a knob is set to, or the engine's own value of it, is a number below value.
func (s *session) less(set, own, value string) bool {
	have, err := strconv.Atoi(orDefault(set, own))
	want, bad := strconv.Atoi(value)
	return err == nil && bad == nil && have < want
}

// gain is how much less of the request's time the regimes take with a plan than with the best so far.
func (s *session) gain(p Plan, regimes []string) float64 { return s.gainOver(s.best, p, regimes) }

// gainOver is the same over any plan; 0 where one of them did not run.
func (s *session) gainOver(base, p Plan, regimes []string) float64 {
	var before, after float64
	for _, r := range regimes {
		a, known := s.ratio(r, base[r])
		b, ok := s.ratio(r, p[r])
		if !known || !ok {
			return 0
		}
		before += s.shares[r] * math.Exp(a)
		after += s.shares[r] * math.Exp(b)
	}
	return before/after - 1
}

// confirm spends what runs are left on the settings of each regime that are nearest to the best: the luckiest of many single
// runs is seldom the best.
func (s *session) confirm(ctx context.Context) {
	for !s.over() && ctx.Err() == nil {
		regime, setting := s.doubtful()
		if regime == "" || !s.evaluate(ctx, Plan{regime: setting}, []string{regime}) {
			return
		}
		s.settle()
	}
}

// confirmations is how often a setting is run at the most before the duel.
const confirmations = 3

// doubtful is the setting least often run among the two best thread counts of the heaviest regimes, the second being near
// enough to be the best.
func (s *session) doubtful() (string, Setting) {
	fewest, regime, setting := confirmations, "", Setting(nil)
	for _, k := range s.stage(Threads) {
		for _, r := range s.heavyFirst(k) {
			list := s.ranked(r)
			for _, candidate := range list[:min(2, len(list))] {
				best, _ := s.ratio(r, list[0])
				log, _ := s.ratio(r, candidate)
				if n := s.times(r, candidate); n < fewest && len(candidate) > 0 && log-best < clear {
					fewest, regime, setting = n, r, candidate
				}
			}
		}
	}
	return regime, setting
}

// ranked are the settings of a regime that differ from its best in the knobs of stage Threads alone, the cheapest first.
func (s *session) ranked(regime string) []Setting {
	seen := map[string]Setting{}
	for _, m := range s.planned {
		if _, ok := s.ratio(regime, m.Setting); ok && s.alike(m.Setting, s.best[regime]) {
			seen[m.Setting.String()] = m.Setting
		}
	}
	var list []Setting
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		list = append(list, seen[name])
	}
	slices.SortStableFunc(list, func(a, b Setting) int {
		x, _ := s.ratio(regime, a)
		y, _ := s.ratio(regime, b)
		return cmp.Compare(x, y)
	})
	return list
}

// alike reports whether two settings agree but for the knobs of stage Threads.
func (s *session) alike(a, b Setting) bool {
	strip := func(x Setting) Setting {
		y := maps.Clone(x)
		for _, k := range s.stage(Threads) {
			delete(y, k.Name)
		}
		return y
	}
	return len(strip(a)) == len(strip(b)) && maps.Equal(strip(a), strip(b))
}

func (s *session) times(regime string, setting Setting) (n int) {
	for _, m := range s.planned {
		if m.Status == OK && maps.Equal(m.Setting, setting) && m.cost(regime) > 0 {
			n++
		}
	}
	return n
}

// settle takes the best thread count of each regime by all that is known, where the best so far has run itself.
func (s *session) settle() {
	for _, r := range s.regimes() {
		if _, ran := s.ratio(r, s.best[r]); ran {
			s.best[r] = s.ranked(r)[0]
		}
	}
}

// prefer takes the default where the plan ran and is no better by all that is known: a duel of it would only cost time.
func (s *session) prefer(standard Plan) {
	if s.gainOver(standard, s.best, s.regimes()) < 0 {
		s.best = standard
	}
}

// coin orders the two of a pair.
func (s *session) coin() *rand.Rand { return rand.New(rand.NewPCG(s.opt.Seed, s.opt.Seed)) }
