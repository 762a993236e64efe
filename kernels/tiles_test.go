package kernels

import (
	"slices"
	"testing"
)

func TestDefaultTiles(t *testing.T) {
	var set tileSet
	for _, tile := range []Tile{{4, 1}, {4, 2}, {4, 3}, {4, 4}, {4, 5}, {2, 8}, {2, 12}} {
		set.tiles = append(set.tiles, registerTile{Tile: tile})
	}
	for m, want := range map[int]string{
		0: "4x1", 1: "4x1", 2: "4x2", 3: "4x3", 4: "4x4", 5: "4x5", 6: "4x5", 8: "2x8", 9: "2x8", 10: "4x5", 12: "2x12",
		13: "2x12", 16: "2x8", 20: "4x5", 24: "2x12", 32: "2x8", 48: "2x12", 63: "2x12", 64: "2x12", 128: "2x12", 512: "2x12",
	} {
		if got := set.choose(m).Tile.String(); got != want {
			t.Errorf("%d tokens: tile %s, want %s", m, got, want)
		}
	}
}

func TestTilesAreOrderedByTokens(t *testing.T) {
	for _, k := range All() {
		if !slices.IsSortedFunc(k.Tiles, func(a, b Tile) int { return a.Tokens - b.Tokens }) {
			t.Errorf("%s: tiles %v: choose and pick want them by tokens", k.Name, k.Tiles)
		}
	}
}
