package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Each verb that --help shows has a page with each of its flags, and troff has nothing to complain of.
func TestManPages(t *testing.T) {
	root, dir := (&app{out: io.Discard, err: io.Discard}).root(), t.TempDir()
	if err := writeManPages(root, dir); err != nil {
		t.Fatal(err)
	}
	troff, err := exec.LookPath("groff")
	if err != nil {
		if strings.Contains(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), "groff") {
			t.Fatal("NOT TESTED: the pages as troff sees them: ", err)
		}
		t.Log("NOT TESTED: the pages as troff sees them: ", err)
	}
	pages := 0
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		if cmd.Hidden || !cmd.IsAvailableCommand() && cmd.HasParent() {
			return
		}
		pages++
		path := filepath.Join(dir, manName(cmd)+".1")
		page, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			return
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if want := roff("--" + f.Name); !f.Hidden && !strings.Contains(string(page), want) {
				t.Errorf("%s: no %s", path, want)
			}
		})
		if troff != "" {
			if out, err := exec.Command(troff, "-man", "-ww", "-z", "-Tutf8", path).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s: %v\n%s", path, err, out)
			}
		}
		for _, verb := range cmd.Commands() {
			look(verb)
		}
	}
	look(root)
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if pages < 20 || len(files) != pages {
		t.Errorf("%d pages of %d verbs", len(files), pages)
	}
}

func TestRoff(t *testing.T) {
	if got, want := roff(".x -a \\\n'y…"), "\\&.x \\-a \\e\n\\&'y\\[u2026]"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
