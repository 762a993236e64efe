package fleet

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// What an endpoint said that talks nonsense is no part of the answer of the next one.
func TestNonsenseLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	endpoint := func(answer string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) }))
		t.Cleanup(srv.Close)
		return srv.Listener.Addr().String()
	}
	mad := endpoint(`{"succeeded":true,"kvs":[{"key":"eA==","value":"eA==","mod_revision":"7"}]}`)
	sane := endpoint(`{"header":{"cluster_id":"1"}}`)
	e := open(t, Options{URL: "etcd://" + mad + "," + sane}).backend.(*etcd)
	if ok, err := e.swap(t.Context(), "entry/x", 0, []byte("{}")); ok || err != nil {
		t.Errorf("swap: %v, %v: want what the second endpoint says, that somebody was faster", ok, err)
	}
	e = open(t, Options{URL: "etcd://" + mad + "," + sane}).backend.(*etcd)
	if paths, err := e.list(t.Context(), "entry/"); len(paths) > 0 || err != nil {
		t.Errorf("list: %q, %v: want nothing, as the second endpoint says", paths, err)
	}
	headed := endpoint(`{"header":{"cluster_id":"1"},"kvs":7}`)
	other := endpoint(`{"hello":"world"}`)
	e = open(t, Options{URL: "etcd://" + headed + "," + other}).backend.(*etcd)
	if _, err := e.list(t.Context(), "entry/"); err == nil {
		t.Error("list: want an error where neither endpoint is etcd")
	}
}
