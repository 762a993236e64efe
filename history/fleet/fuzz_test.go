package fleet

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whatever lies in the fleet, what is let in is sound and could be stored again.
func FuzzDecode(f *testing.F) {
	e := entryOf(1, 4, 20)
	doc, err := e.encode()
	must(f, err)
	f.Add(string(doc))
	for _, bad := range unsound {
		f.Add(bad.spoil(string(doc)))
	}
	f.Fuzz(func(t *testing.T, doc string) {
		e, err := decode(entryOf(1, 4, 20).path(), []byte(doc))
		if err != nil {
			return
		}
		again, err := e.encode()
		must(t, err)
		got, err := decode(e.path(), again)
		must(t, err)
		if diff := cmp.Diff(e.body(), got.body()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// Whatever answers in place of etcd, it is an answer with a header or an error of one line.
func FuzzAnswer(f *testing.F) {
	for _, bad := range nonsense {
		if len(bad.content) < 1<<10 {
			f.Add(bad.status, bad.content)
		}
	}
	f.Add(http.StatusOK, `{"header":{"cluster_id":"7"},"kvs":[{"key":"Zm9v","mod_revision":"2","value":"YmFy"}],"succeeded":true,"ID":"5","TTL":"2"}`)
	f.Fuzz(func(t *testing.T, status int, content string) {
		for _, a := range []answer{&headed{}, &rangeAnswer{}, &txnAnswer{}, &leaseAnswer{}, &aliveAnswer{}} {
			err := read("http://127.0.0.1:2379", status, []byte(content), a)
			if err == nil && a.head().Cluster == 0 {
				t.Errorf("%q is taken for %T", content, a)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		}
	})
}
