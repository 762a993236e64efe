package idle

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/tools/txtar"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// capture is a machine before and after 10 s.
func capture(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	tree := fstest.MapFS{}
	for _, f := range archive.Files {
		tree[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return tree
}

// usage is what others did in the 10 s of a capture.
func usage(t *testing.T, tree fstest.MapFS, own time.Duration) Usage {
	t.Helper()
	var readings [2]Reading
	for i, dir := range []string{"before", "after"} {
		sub, err := fs.Sub(tree, dir)
		if err != nil {
			t.Fatal(err)
		}
		readings[i] = Read(sub, noon.Add(time.Duration(i)*10*time.Second))
	}
	return readings[1].Since(readings[0], own)
}

// replace changes a file of a capture.
func replace(t *testing.T, tree fstest.MapFS, file, old, new string) {
	t.Helper()
	text := ""
	if f := tree[file]; f != nil {
		text = string(f.Data)
	}
	if !strings.Contains(text, old) {
		t.Fatalf("%s does not contain %q", file, old)
	}
	tree[file] = &fstest.MapFile{Data: []byte(strings.Replace(text, old, new, 1))}
}

func TestAdmissionByOneFactAtATime(t *testing.T) {
	battery := func(kind, status string) func(*testing.T, fstest.MapFS) {
		return func(_ *testing.T, tree fstest.MapFS) {
			tree["after/sys/class/power_supply/BAT0/type"] = &fstest.MapFile{Data: []byte(kind + "\n")}
			tree["after/sys/class/power_supply/BAT0/status"] = &fstest.MapFile{Data: []byte(status + "\n")}
		}
	}
	edit := func(file, old, new string) func(*testing.T, fstest.MapFS) {
		return func(t *testing.T, tree fstest.MapFS) { replace(t, tree, "after/"+file, old, new) }
	}
	night := DefaultRules
	night.From, night.To = 22*time.Hour, 6*time.Hour
	day := DefaultRules
	day.From, day.To = 8*time.Hour, 18*time.Hour
	for _, c := range []struct {
		name   string
		rules  Rules
		change func(*testing.T, fstest.MapFS)
		own    time.Duration
		gpu    float64
		want   string // in the reason; "" = admitted
	}{
		{name: "idle", rules: DefaultRules},
		{name: "others use half of the CPUs", rules: DefaultRules, change: edit("proc/stat", "cpu  100040", "cpu  102000"), want: "use the CPUs to 50 %"},
		{name: "the asker itself uses half of the CPUs", rules: DefaultRules, change: edit("proc/stat", "cpu  100040", "cpu  102000"), own: 20 * time.Second},
		{name: "ten tasks want a CPU", rules: DefaultRules, change: edit("proc/stat", "procs_running 2", "procs_running 10"), want: "10 tasks want a CPU"},
		{name: "tasks wait for a CPU", rules: DefaultRules, change: edit("proc/pressure/cpu", "total=5010000", "total=7000000"), want: "wait for a CPU 20 %"},
		{name: "tasks wait for memory", rules: DefaultRules, change: edit("proc/pressure/memory", "total=1000", "total=501000"), want: "wait for memory 5 %"},
		{name: "tasks wait for a disk", rules: DefaultRules, change: edit("proc/pressure/io", "total=210000", "total=9200000"), want: "wait for a disk 90 %"},
		{name: "the quota is used up", rules: DefaultRules, change: edit("sys/fs/cgroup/system.slice/tuner.service/cpu.stat", "throttled_usec 240000", "throttled_usec 1240000"), want: "quota is used up 10 %"},
		{name: "on its battery", rules: DefaultRules, change: battery("Battery", "Discharging"), want: "battery"},
		{name: "its battery is full", rules: DefaultRules, change: battery("Battery", "Full")},
		{name: "the GPU is used", rules: DefaultRules, gpu: 0.4, want: "GPU is used to 40 %"},
		{name: "by day, at night only", rules: night, want: "outside the hours 22:00 to 06:00"},
		{name: "by day, by day only", rules: day},
		{name: "no pressure is told", rules: DefaultRules, change: func(_ *testing.T, tree fstest.MapFS) { delete(tree, "after/proc/pressure/cpu") }},
		{name: "no utilisation is told", rules: DefaultRules, change: func(_ *testing.T, tree fstest.MapFS) { delete(tree, "after/proc/stat") }, want: "cannot be told"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := capture(t, "container-idle")
			if c.change != nil {
				c.change(t, tree)
			}
			got := c.rules.Admit(usage(t, tree, c.own), c.gpu, noon)
			if c.want == "" && got != "" || c.want != "" && !strings.Contains(got, c.want) {
				t.Errorf("admission says %q, want %q", got, c.want)
			}
		})
	}
}

func TestBusyMachineIsNotAdmitted(t *testing.T) {
	u := usage(t, capture(t, "vm-busy"), 0)
	if u.Utilization < 0.5 || u.CPUStall == 0 || !u.Known {
		t.Errorf("usage of a machine that compiles on both CPUs: %+v", u)
	}
	if why := DefaultRules.Admit(u, 0, noon); !strings.Contains(why, "use the CPUs") {
		t.Errorf("admission says %q, want that others use the CPUs", why)
	}
}

// machine makes readings of a machine with that many CPUs on a clock of its own.
type machine struct {
	at   time.Duration
	busy time.Duration
	cpus int
}

// run lets time pass with others and the asker using so many CPUs each, to the tick as /proc/stat has it.
func (m *machine) run(d time.Duration, cpus float64) Reading {
	m.at += d
	m.busy += time.Duration(cpus * float64(d))
	return Reading{At: noon.Add(m.at), CPUs: m.cpus, Busy: m.busy.Truncate(tick), Runnable: 1}
}

func TestGateAdmitsAfterAWholeQuietTime(t *testing.T) {
	m := machine{cpus: 2}
	g := Gate{Rules: DefaultRules}
	admitted := func() bool { return g.Admit(noon.Add(m.at)) == "" }
	for range 10 {
		g.Look(m.run(time.Second, 0.02), 0)
		if admitted() {
			t.Fatalf("admitted after %v", m.at)
		}
	}
	if g.Look(m.run(time.Second, 0.02), 0); !admitted() {
		t.Errorf("not admitted after %v of quiet: %s", m.at, g.Admit(noon))
	}
	if g.Look(m.run(time.Second, 1.5), 0); admitted() {
		t.Error("admitted a second after load came")
	}
	for range 9 {
		if g.Look(m.run(time.Second, 0.02), 0); m.at < 20*time.Second && g.Usage(DefaultRules.Quiet).Utilization > 0.1 && admitted() {
			t.Errorf("admitted at %v with %+v", m.at, g.Usage(DefaultRules.Quiet))
		}
	}
}

// Load is noticed within 100 ms with a look every 20 ms, whatever the moment at which it comes; and a tuner's own load is not.
func TestLoadIsNoticedWithinATenthOfASecond(t *testing.T) {
	const step = 20 * time.Millisecond
	for _, cpus := range []int{1, 2, 16} {
		for offset := time.Duration(0); offset < step; offset += time.Millisecond {
			m, own := machine{cpus: cpus}, time.Duration(0)
			g := Gate{Rules: DefaultRules}
			m.run(offset, 0)
			for range 100 {
				own += step * time.Duration(cpus)
				if g.Look(m.run(step, float64(cpus)), own); g.Yield() != "" {
					t.Fatalf("%d CPUs: yields to itself: %s", cpus, g.Yield())
				}
			}
			others := min(1+DefaultRules.YieldShare*float64(cpus), float64(cpus)) // a task, and the lowest priority gives way
			noticed := time.Duration(0)
			for noticed = step; noticed <= 100*time.Millisecond; noticed += step {
				own += time.Duration((float64(cpus) - others) * float64(step))
				if g.Look(m.run(step, float64(cpus)), own); g.Yield() != "" {
					break
				}
			}
			if noticed > 100*time.Millisecond {
				t.Errorf("%d CPUs: %.2f CPUs of load were not noticed within 100 ms, %v", cpus, others, g.Usage(DefaultRules.Window))
			}
		}
	}
}

func TestClockSetBackForgetsWhatWasSeen(t *testing.T) {
	m := machine{cpus: 2}
	g := Gate{Rules: DefaultRules}
	for range 12 {
		g.Look(m.run(time.Second, 0), 0)
	}
	m.at -= time.Hour
	g.Look(m.run(time.Second, 0), 0)
	if why := g.Admit(noon); why != "not watched for long enough yet" {
		t.Errorf("after the clock was set back: %q", why)
	}
}

func TestRulesThatCannotBe(t *testing.T) {
	for name, change := range map[string]func(*Rules){
		"quiet":       func(r *Rules) { r.Quiet = 0 },
		"window":      func(r *Rules) { r.Window = time.Second },
		"utilisation": func(r *Rules) { r.Utilization = 2 },
		"idle":        func(r *Rules) { r.Idle = -1 },
		"burst share": func(r *Rules) { r.BurstShare = 0 },
		"hours":       func(r *Rules) { r.From = -time.Hour },
	} {
		r := DefaultRules
		change(&r)
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := DefaultRules.Validate(); err != nil {
		t.Error(err)
	}
}

// A GPU that serves batches is idle in between: one look that finds it busy keeps the tuner away for as long as the machine must
// have been idle.
func TestAGPUThatWasBusyLatelyKeepsAway(t *testing.T) {
	used := []float64{0, 0, 0.9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	at := 0
	g := Gate{Rules: DefaultRules, GPU: func() float64 { return used[at] }}
	var why []string
	for ; at < len(used); at++ {
		r := Reading{At: noon.Add(time.Duration(at) * time.Second), CPUs: 4}
		g.Look(r, 0)
		why = append(why, g.Admit(r.At))
	}
	if !strings.Contains(why[11], "the GPU is used to 90 %") || why[15] != "" {
		t.Errorf("9 s after it was busy: %q, 13 s after: %q; want it kept away and admitted", why[11], why[15])
	}
}
