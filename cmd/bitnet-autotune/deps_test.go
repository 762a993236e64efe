package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/bitnet-autotune/bitnet-autotune"

// allowed is the policy: which of our packages each package may import. A package that is missing here may not exist.
// Parsing the files, rather than asking the go tool, sees every build tag and architecture, and the test cache knows
// which files were read.
var allowed = map[string][]string{
	"probe":                     {},
	"probe/model":               {"probe"},
	"probe/model/modeltest":     {"probe/model"},
	"probe/gpu":                 {"probe"},
	"cuda/driver":               {},
	"cuda/kernels":              {"cuda/driver", "kernels"},
	"cuda/sim":                  {"cuda/driver", "cuda/sim/ptx"},
	"cuda/memory":               {"cuda/driver", "probe", "probe/gpu"},
	"cuda/sim/ptx":              {},
	"cuda/kernels/kerneltest":   {"cuda/driver", "cuda/kernels", "kernels"},
	"kernels":                   {"probe"},
	"kernels/kerneltest":        {"kernels"},
	"bandit":                    {},
	"bandit/online":             {},
	"bandit/bandittest":         {"bandit"},
	"history":                   {},
	"history/t4":                {"history"},
	"history/fleet":             {"history"},
	"tuner/measure":             {},
	"tuner/measure/measuretest": {"tuner/measure"},
	"tuner/target":              {"probe", "probe/gpu", "probe/model", "kernels", "cuda/driver", "cuda/kernels", "cuda/memory", "tuner/measure"},
	"tuner/engine":              {"tuner/measure"},
	"tuner/engine/enginetest":   {"tuner/engine"},
	"tuner":                     {"probe", "probe/gpu", "probe/model", "kernels", "cuda/driver", "cuda/kernels", "bandit", "bandit/online", "history", "history/fleet", "tuner/measure", "tuner/target", "cuda/memory", "tuner/device", "tuner/engine", "tuner/idle"},
	"tuner/idle":                {},
	"tuner/daemon":              {"probe", "history", "tuner", "tuner/idle", "tuner/measure", "tuner/target"},
	// It shows facts and measurements in the words of the packages that they come from: the host, the models, the arms, the engines.
	"tuner/dashboard":     {"probe/gpu", "probe/model", "kernels", "history", "tuner", "tuner/advisor", "tuner/daemon", "tuner/measure", "tuner/target"},
	"tuner/device":        {"probe", "probe/gpu", "probe/model", "cuda/memory"},
	"tuner/advisor":       {"probe", "probe/gpu", "probe/model"},
	"tuner/placement":     {"probe", "probe/gpu", "probe/model", "cuda/memory", "tuner/device"}, // cuda/memory: one truth of what a GPU has room for
	"cmd/bitnet-autotune": {"*"},

	"experiments/score":  {},
	"experiments/replay": {"bandit", "history/t4", "experiments/score"},
	"experiments/report": {"experiments/replay"},
	// It serves a model beside a daemon.
	"experiments/2026-11-background":           {"probe", "probe/model", "kernels", "tuner", "tuner/measure", "tuner/target"},
	"experiments/2026-11-auto-hyperparameters": {},
	"experiments/2026-11-cpu-kernel-portfolio": {"probe", "kernels"},
	"experiments/2026-11-noise":                {"bandit", "tuner", "tuner/measure", "experiments/replay"}, // tuner: its median
	"experiments/2026-11-strategies":           {},
	// It writes model files, as the tests of probe/model do.
	"experiments/2026-11-llama-bench": {"probe/model", "probe/model/modeltest"},
	// It records the spaces of the real tuner on the real target, and judges the searches of the tuner on them.
	"experiments/2026-11-bitnet-spaces": {"probe", "probe/model", "kernels", "bandit", "tuner", "tuner/measure", "tuner/target", "experiments/replay"},
}

// allowedInTests are imports that only _test.go files may have besides.
var allowedInTests = map[string][]string{
	"probe/model":     {"probe/model/modeltest"},
	"kernels":         {"kernels/kerneltest", "probe/model"}, // the shapes of the presets
	"cuda/kernels":    {"cuda/kernels/kerneltest", "cuda/sim", "cuda/sim/ptx", "probe/model"},
	"bandit":          {"bandit/bandittest", "experiments/replay"},
	"tuner/measure":   {"tuner/measure/measuretest"},
	"tuner":           {"tuner/measure/measuretest", "probe/model/modeltest", "cuda/sim"},
	"tuner/engine":    {"tuner/engine/enginetest"},
	"tuner/target":    {"cuda/sim"},
	"cuda/memory":     {"cuda/sim"}, // a machine with GPUs
	"tuner/placement": {"probe/model/modeltest"},
	"tuner/dashboard": {"tuner/measure/measuretest", "cuda/driver", "probe", "tuner/idle", "tuner/engine", "probe/model/modeltest"}, // a simulated host
	"tuner/daemon":    {"tuner/measure/measuretest", "cuda/driver", "cuda/sim", "probe/model"},                                      // a simulated host with a card
}

func TestImportsFollowThePolicy(t *testing.T) {
	root := os.DirFS("../..")
	seen := map[string]bool{}
	err := fs.WalkDir(root, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && file != "." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata") {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, ".go") {
			seen[path.Dir(file)] = true
			checkImports(t, root, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range allowed {
		if !seen[pkg] {
			t.Errorf("the policy speaks of %s, which does not exist: remove its line", pkg)
		}
	}
}

func checkImports(t *testing.T, root fs.FS, file string) {
	t.Helper()
	pkg := path.Dir(file)
	may, ok := allowed[pkg]
	if !ok {
		t.Errorf("%s: package %s is not in the policy: add it with what it may import, and say why", file, pkg)
		return
	}
	source, err := fs.ReadFile(root, file)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(file, "_test.go") {
		may = append(append([]string{pkg}, may...), allowedInTests[pkg]...)
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		ours, found := strings.CutPrefix(imported, module+"/")
		if found && !slices.Contains(may, "*") && !slices.Contains(may, ours) {
			t.Errorf("%s imports %s; package %s may import only %v of ours: fix the import, not this list", file, ours, pkg, may)
		}
	}
}
