package main

import (
	"bytes"
	"go/parser"
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// config --for go prints an expression that says all of the config, whatever the reason before it says.
func TestGoExpression(t *testing.T) {
	var b bytes.Buffer
	writeGo(&b, tuner.Plan{Source: tuner.Measured, Reason: "measured\nas one\r\nsays", Config: tuner.Config{
		Strategy: tuner.GPUOnly, Decode: tuner.Setting{Kernel: "mul/i2s/decode", Launch: target.Launch{SplitK: 2}}, GPUMemoryFraction: 0.25, Devices: []string{"GPU-1"}}})
	if _, err := parser.ParseExpr(b.String()); err != nil {
		t.Errorf("%v in\n%s", err, b.String())
	}
	for _, want := range []string{"GPUMemoryFraction: 0.25,", "SplitK: 2", "// measured: measured as one says\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
