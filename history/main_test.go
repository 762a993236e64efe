package history

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// paranoid holds figures of time to their bounds: only sound where nothing else runs.
var paranoid = flag.Bool("paranoid", false, "hold figures of time to their bounds")

// Tests that need another process start this binary again as "history.test child NAME ARGUMENT…".
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "child" {
		if err := children[os.Args[2]](context.Background(), os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// children are what a child process can be.
var children = map[string]func(ctx context.Context, args []string) error{
	"append":  childAppend,
	"read":    childRead,
	"killed":  childKilled,
	"pruned":  childPruned,
	"inject":  childInject,
	"cut":     childCut,
	"power":   childPower,
	"corrupt": childCorrupt,
	"contend": childContend,
	"serve":   childServe,
	"scale":   childScale,
}

// child returns the command of a child process.
func child(t testing.TB, name string, args ...any) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	argv := []string{"child", name}
	for _, arg := range args {
		argv = append(argv, fmt.Sprint(arg))
	}
	cmd := exec.CommandContext(t.Context(), exe, argv...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // or each one built with -race sleeps a second
	return cmd
}

// unavailable skips a test, or fails it if BITNET_AUTOTUNE_REQUIRE names what it needs.
func unavailable(t *testing.T, need string, err error) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), ","), need) {
		t.Fatalf("%s is required: %v", need, err)
	}
	t.Skipf("NOT TESTED: %s: %v", need, err)
}
