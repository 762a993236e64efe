package main

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:embed want.txt
var want string

func TestTable(t *testing.T) {
	var got strings.Builder
	if err := run(strings.NewReader(recorded), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, text := range map[string]string{"hole": "a,x,1\na,y,1\nb,x,1\n", "no number": "a,x,one\n"} {
		t.Run(name, func(t *testing.T) {
			if _, err := read(strings.NewReader(text)); err == nil {
				t.Error("no error")
			}
		})
	}
}
