package model

import (
	"fmt"
	"strings"
)

// published are the tiles that bitnet.cpp offers for the matmuls of a model, in two places: the arguments with which
// setup_env.py runs utils/codegen_tl1.py and codegen_tl2.py, and the kernel_config_tl1.ini and _tl2.ini below
// preset_kernels, left out where they say the same. setup_env.py overwrites the latter with the former even with
// --use-pretuned, but a converter that is run by hand reads either. The one of TL2 for 4096 x 1536 below preset_kernels is
// left out too: it has a bmm of 64, with which the converter fails. Read 2026-11-21: microsoft/BitNet 0296943, and for
// preset_kernels its fork zetroll/BitNet 6cfd883.
var published = []struct {
	kind, model, arch string // arch is what the converter writes as general.architecture
	n, k              uint64
	TileParameters
	source string
}{
	{"tl1", "bitnet_b1_58-large", "bitnet", 1536, 4096, TileParameters{256, 128, 32}, "setup_env.py"},
	{"tl1", "bitnet_b1_58-large", "bitnet", 1536, 1536, TileParameters{128, 64, 64}, "setup_env.py"},
	{"tl1", "bitnet_b1_58-large", "bitnet", 4096, 1536, TileParameters{256, 128, 32}, "setup_env.py"},
	{"tl1", "bitnet_b1_58-3B", "bitnet", 3200, 8640, TileParameters{160, 64, 32}, "setup_env.py"},
	{"tl1", "bitnet_b1_58-3B", "bitnet", 3200, 3200, TileParameters{320, 128, 64}, "setup_env.py"},
	{"tl1", "bitnet_b1_58-3B", "bitnet", 8640, 3200, TileParameters{320, 64, 32}, "setup_env.py"},
	{"tl1", "Llama3-8B-1.58-100B-tokens", "llama", 14336, 4096, TileParameters{256, 128, 32}, "setup_env.py"},
	{"tl1", "Llama3-8B-1.58-100B-tokens", "llama", 4096, 14336, TileParameters{128, 64, 64}, "setup_env.py"},
	{"tl1", "Llama3-8B-1.58-100B-tokens", "llama", 1024, 4096, TileParameters{256, 128, 32}, "setup_env.py"},
	{"tl1", "Llama3-8B-1.58-100B-tokens", "llama", 4096, 4096, TileParameters{128, 64, 64}, "setup_env.py"},
	{"tl1", "Llama3-8B-1.58-100B-tokens", "llama", 14336, 4096, TileParameters{256, 128, 64}, "preset_kernels"},
	{"tl1", "Llama3-8B-1.58-100B-tokens", "llama", 4096, 14336, TileParameters{256, 128, 32}, "preset_kernels"},
	{"tl1", "Llama3-8B-1.58-100B-tokens", "llama", 1024, 4096, TileParameters{128, 64, 64}, "preset_kernels"},
	{"tl1", "Llama3-8B-1.58-100B-tokens", "llama", 4096, 4096, TileParameters{128, 64, 32}, "preset_kernels"},
	{"tl2", "bitnet_b1_58-large", "bitnet", 1536, 4096, TileParameters{256, 96, 32}, "setup_env.py"},
	{"tl2", "bitnet_b1_58-large", "bitnet", 1536, 1536, TileParameters{128, 192, 32}, "setup_env.py"},
	{"tl2", "bitnet_b1_58-large", "bitnet", 4096, 1536, TileParameters{256, 96, 32}, "setup_env.py"},
	{"tl2", "bitnet_b1_58-3B", "bitnet", 3200, 8640, TileParameters{160, 96, 32}, "setup_env.py"},
	{"tl2", "bitnet_b1_58-3B", "bitnet", 3200, 3200, TileParameters{320, 96, 32}, "setup_env.py"},
	{"tl2", "bitnet_b1_58-3B", "bitnet", 8640, 3200, TileParameters{320, 96, 32}, "setup_env.py"},
	{"tl2", "Llama3-8B-1.58-100B-tokens", "llama", 14336, 4096, TileParameters{256, 96, 32}, "setup_env.py"},
	{"tl2", "Llama3-8B-1.58-100B-tokens", "llama", 4096, 14336, TileParameters{128, 96, 32}, "setup_env.py"},
	{"tl2", "Llama3-8B-1.58-100B-tokens", "llama", 1024, 4096, TileParameters{256, 96, 32}, "setup_env.py"},
	{"tl2", "Llama3-8B-1.58-100B-tokens", "llama", 4096, 4096, TileParameters{128, 96, 32}, "setup_env.py"},
}

// wantTiles ends every refusal for want of tiles.
const wantTiles = "want BM, BK and bm of the kernel_config.ini with which it was converted, in Packing.Tiles"

// publishedTiles are the tiles that t was packed with if it was made by an unchanged bitnet.cpp. They are an error unless
// all that the file tells speaks for that: its file type, its architecture, and the shapes of all its tensors of that
// type, which are those of one model that bitnet.cpp has tiles for.
func (f *File) publishedTiles(t Tensor) (TileParameters, error) {
	var tiles TileParameters
	var model, arch string
	var sources []string
	for _, p := range published {
		if p.kind == t.Type && p.n == t.N() && p.k == t.K() {
			tiles, model, arch = p.TileParameters, p.model, p.arch
			sources = append(sources, fmt.Sprintf("%v (%s)", p.TileParameters, p.source))
		}
	}
	if len(sources) == 0 {
		return tiles, fmt.Errorf("is %s of %d x %d, in tiles that the file does not tell and bitnet.cpp has no default for: %s", t.Type, t.N(), t.K(), wantTiles)
	}
	if err := f.resembles(t.Type, model, arch); err != nil {
		return tiles, fmt.Errorf("is %s in tiles that the file does not tell, and not those of %s, for %w: %s", t.Type, model, err, wantTiles)
	}
	if len(sources) > 1 {
		return tiles, fmt.Errorf("is %s of %d x %d, in tiles that the file does not tell, of which bitnet.cpp has %s: %s", t.Type, t.N(), t.K(), strings.Join(sources, " and "), wantTiles)
	}
	return tiles, nil
}

// resembles returns what speaks against the file being one that bitnet.cpp made as kind of a model.
func (f *File) resembles(kind, model, arch string) error {
	if got := f.Keys["general.file_type"]; got != fileTypes[kind] {
		return fmt.Errorf("general.file_type is %s rather than %d", quote(got), fileTypes[kind])
	}
	if got := f.Keys["general.architecture"]; got != arch {
		return fmt.Errorf("general.architecture is %s rather than %q", quote(got), arch)
	}
	for _, t := range f.Tensors {
		if t.Type == kind && !offers(kind, model, t) {
			return fmt.Errorf("tensor %q is %d x %d", t.Name, t.N(), t.K())
		}
	}
	return nil
}

// offers reports whether bitnet.cpp has tiles of kind for a tensor of a model.
func offers(kind, model string, t Tensor) bool {
	for _, p := range published {
		if p.kind == kind && p.model == model && p.n == t.N() && p.k == t.K() {
			return true
		}
	}
	return false
}
