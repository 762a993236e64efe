package main

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/advisor"
)

// engineFlags are the flags of llama.cpp and its kin that say what the rules ask for, as its --help spells them (2026-08).
var engineFlags = map[string]string{
	"-t": "threads", "--threads": "threads", "-c": "sequence_length", "--ctx-size": "sequence_length",
	"-ub": "prefill_batch", "--ubatch-size": "prefill_batch", "-np": "batch_size", "--parallel": "batch_size",
	"-ngl": "gpu_layers", "--gpu-layers": "gpu_layers", "--n-gpu-layers": "gpu_layers",
	"-fa": "flash", "--flash-attn": "flash", "-m": "model", "--model": "model",
}

// settingsOf reads the settings and the model's path from the command line of an engine of the llama.cpp family. What its
// flags do not say stays unknown: what a build takes by itself, nothing here can tell.
func settingsOf(args []string) (s advisor.Settings, model string) {
	s = advisor.Settings{}
	if len(args) == 0 || !strings.Contains(filepath.Base(args[0]), "llama") {
		return s, ""
	}
	s["mode"], s["engine"] = "inference", "llama.cpp"
	found := map[string]string{}
	for i := 1; i < len(args); i++ {
		flag, value, joined := strings.Cut(args[i], "=")
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		if name, ok := engineFlags[flag]; ok && value != "" {
			found[name] = value
		}
	}
	for _, key := range []string{"threads", "sequence_length", "prefill_batch", "batch_size"} {
		if n, err := strconv.Atoi(found[key]); err == nil && n > 0 { // 0 and -1: the engine's own choice
			s[key] = found[key]
		}
	}
	if n, err := strconv.Atoi(found["gpu_layers"]); err == nil && n != -1 { // -1: as many as fit, which may be none
		s["device"] = map[bool]string{true: "cpu", false: "gpu"}[n == 0]
	}
	switch found["flash"] {
	case "on", "1":
		s["attention"] = "flash"
	case "off", "0":
		s["attention"] = "full"
	}
	return s, found["model"]
}
