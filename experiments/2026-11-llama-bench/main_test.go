package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model/modeltest"
)

func TestTheFileHasTheTensorsOfTheModel(t *testing.T) {
	want := modeltest.Small()
	var b bytes.Buffer
	if err := writeModel(&b, want); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "small.gguf")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := model.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.Layers != want.Layers || got.Hidden != want.Hidden || got.FFN != want.FFN || got.KVHeads != want.KVHeads || got.Vocab != want.Vocab {
		t.Errorf("%+v, want the dimensions of %+v", got, want)
	}
	const weights = 3 * (2*256*256 + 2*128*256 + 3*256*512) // of three layers: q and o, k and v, the three of the FFN
	if bytes := got.Bytes()["tq2_0"]; bytes != weights*66/256 {
		t.Errorf("%d bytes of ternary weights, want %d", bytes, weights*66/256)
	}
}
