package main

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:embed want.txt
var want string

func TestTables(t *testing.T) {
	var got strings.Builder
	if err := run(strings.NewReader(recorded), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, text := range map[string]string{"short": "auto,pnpoly,0,6,0.9\n", "no number": "auto,pnpoly,0,six,0.9,0.01\n"} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "line 1") {
				t.Errorf("error %v; want one that names line 1", err)
			}
		})
	}
}
