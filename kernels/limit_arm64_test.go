package kernels_test

import "github.com/bitnet-autotune/bitnet-autotune/probe"

func init() {
	limitSets = append(limitSets, probe.NEON, probe.NEON|probe.DotProd)
	quantizerSets = append(quantizerSets, probe.NEON)
}
