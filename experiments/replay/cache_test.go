package replay_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/history/t4"
)

// cache writes a cache of one parameter.
type cache struct {
	t    testing.TB
	text *strings.Builder
	w    *t4.Writer
}

func newCache(t testing.TB, text *strings.Builder, n int) cache {
	t.Helper()
	param := t4.Param{Name: "x"}
	for x := range n {
		param.Values = append(param.Values, strconv.Itoa(x+1))
	}
	w, err := t4.NewWriter(text, t4.Cache, t4.Header{Params: []t4.Param{param}})
	if err != nil {
		t.Fatal(err)
	}
	return cache{t, text, w}
}

func (c cache) add(x int, ms float64, fails bool) {
	e := t4.Entry{Values: []string{strconv.Itoa(x + 1)}, Time: ms, Times: []float64{ms}, Spent: t4.NotRecorded()}
	e.Spent[t4.Compile] = 100
	if fails {
		e.Failure, e.Times = "RuntimeFailedConfig", nil
	}
	if err := c.w.Write(e); err != nil {
		c.t.Fatal(err)
	}
}

func (c cache) end() string {
	if err := c.w.Close(); err != nil {
		c.t.Fatal(err)
	}
	return c.text.String()
}
