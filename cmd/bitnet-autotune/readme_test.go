package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestShownCommands executes every command that the README and the manual in doc.go show, in their order and in one
// home, with budgets cut to two seconds.
func TestShownCommands(t *testing.T) {
	var shown []string
	for _, file := range []string{"../../README.md", "doc.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		commands := regexp.MustCompile(`(?m)^\s*\$ ([^#\n]*)`).FindAllStringSubmatch(string(text), -1)
		if len(commands) < 4 {
			t.Fatalf("%s shows %d commands: want at least the verbs", file, len(commands))
		}
		for _, c := range commands {
			shown = append(shown, strings.TrimSpace(c[1]))
		}
	}
	home := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(home, "bitnet-autotune")); err != nil {
		t.Fatal(err)
	}
	caller := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "BITNET_AUTOTUNE_") })
	env := append(caller, "XDG_STATE_HOME="+home+"/state", "XDG_CONFIG_HOME="+home+"/config",
		"BITNET_AUTOTUNE_BUDGET=2s", "PATH="+home+":"+os.Getenv("PATH"))
	for _, command := range shown {
		t.Run(command, func(t *testing.T) { runShown(t, command, env) })
	}
}

// runShown runs a command as a newcomer would. make test is only looked at: it runs this very test. A tune that the
// machine leaves undecided is no fault of the README, nor that there is nothing learned then.
func runShown(t *testing.T, command string, env []string) {
	switch command {
	case "make test":
		command = "make -n test"
	case "make tune":
		command = "make tune BUDGET=6s"
	}
	sh := exec.CommandContext(t.Context(), "sh", "-c", command)
	sh.Dir, sh.Env = "../..", env
	out, err := sh.CombinedOutput()
	learns := strings.Contains(command, " tune ") || strings.Contains(command, " --learned") || strings.Contains(command, " push ")
	if exit, ok := err.(*exec.ExitError); ok && learns && exit.ExitCode() == exitInconclusive {
		return
	}
	if err != nil || len(out) == 0 {
		t.Errorf("%s: %v\n%s", command, err, out)
	}
}

func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../../tuner/example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) == 0 {
		t.Fatal("the README shows no Go code")
	}
	for _, block := range blocks {
		for _, line := range strings.Split(strings.TrimSpace(block[1]), "\n") {
			if !strings.Contains(string(example), strings.TrimSpace(line)) {
				t.Errorf("the README shows %q, which tuner/example_test.go does not have", line)
			}
		}
	}
}
