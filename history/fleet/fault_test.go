package fleet

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// operations are everything that a fleet is asked to do.
var operations = map[string]func(ctx context.Context, f *Fleet) error{
	"push": func(ctx context.Context, f *Fleet) error { _, err := f.Push(ctx, entryOf(1, 4, 20)); return err },
	"pull": func(ctx context.Context, f *Fleet) error {
		_, _, err := f.Pull(ctx, Query{Class: keyOf(1).Class})
		return err
	},
	"await":  func(ctx context.Context, f *Fleet) error { _, err := f.Await(ctx, keyOf(1)); return err },
	"status": func(ctx context.Context, f *Fleet) error { _, err := f.Status(ctx); return err },
	"claim": func(ctx context.Context, f *Fleet) error {
		c, err := f.Claim(ctx, keyOf(1), "tuner", time.Minute)
		if err == nil {
			err = c.Release(ctx)
		}
		return err
	},
}

// allFail has every operation fail in one line, as one of the given kinds.
func allFail(t *testing.T, f *Fleet, text string, kinds ...error) {
	t.Helper()
	for name, do := range operations {
		err := do(t.Context(), f)
		is := false
		for _, kind := range kinds {
			is = is || errors.Is(err, kind)
		}
		if !is || !strings.HasPrefix(err.Error(), "fleet: "+name+": ") || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %v with %q", name, err, kinds, text)
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 400) {
			t.Errorf("%s: want one line, not %q", name, err)
		}
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	f := open(t, Options{URL: fmt.Sprintf("etcd://127.0.0.1:%d", freePort(t))})
	allFail(t, f, "connection refused", ErrUnavailable)
	two := open(t, Options{URL: fmt.Sprintf("etcd://127.0.0.1:%d,127.0.0.1:%d/x", freePort(t), freePort(t))})
	allFail(t, two, "connection refused (tried 2 endpoints)", ErrUnavailable)
}

// An endpoint that takes connections and says nothing, and one that never comes to an end.
func TestTooSlow(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"no answer": func(_ http.ResponseWriter, r *http.Request) { wait(r) },
		"no end of the answer": func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, `{"header":{"cluster_id":"1"`)
			w.(http.Flusher).Flush()
			wait(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(handler)
			t.Cleanup(srv.Close)
			f := open(t, Options{URL: "etcd://" + srv.Listener.Addr().String(), Timeout: 50 * time.Millisecond})
			allFail(t, f, "no answer within 50ms", ErrUnavailable)
			f = open(t, Options{URL: "etcd://" + srv.Listener.Addr().String()})
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, _, err := f.Pull(ctx, Query{Class: keyOf(1).Class}); !isDeadline(err) || !errors.Is(err, ErrUnavailable) {
				t.Errorf("with a deadline of the caller: %v", err)
			}
		})
	}
}

// wait reads a request, without which its end is not noticed, and waits until the client has gone.
func wait(r *http.Request) {
	io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// A proxy that delays what etcd says: slow is fine where there is time.
func TestSlowProxy(t *testing.T) {
	t.Parallel()
	s := startEtcd(t)
	proxy := delay(t, fmt.Sprintf("127.0.0.1:%d", s.port), 20*time.Millisecond)
	f := open(t, Options{URL: "etcd://" + proxy})
	push(t, f, entryOf(1, 4, 20))
	if got := pull(t, f, 1); len(got) != 1 {
		t.Errorf("pulled %v", got)
	}
	for name, do := range operations {
		if err := do(t.Context(), f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// delay forwards connections to address, with a pause before each piece that comes back.
func delay(t *testing.T, address string, pause time.Duration) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				server, err := net.Dial("tcp", address)
				if err != nil {
					return
				}
				defer server.Close()
				go io.Copy(server, client)
				buf := make([]byte, 64<<10)
				for {
					n, err := server.Read(buf)
					time.Sleep(pause)
					if _, werr := client.Write(buf[:n]); err != nil || werr != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// answers of what is not etcd, or of one that has lost its mind.
var nonsense = map[string]struct {
	status  int
	content string
	kind    error
}{
	"HTML":                      {200, "<html><body>Sign in to the hotel's network</body></html>", ErrNonsense},
	"HTML, not found":           {404, "<html>\n<h1>404</h1></html>", ErrNonsense},
	"HTML of a proxy":           {502, "<html>\nBad Gateway</html>", ErrUnavailable},
	"nothing":                   {200, "", ErrNonsense},
	"another service":           {200, `{"hello":"world"}`, ErrNonsense},
	"a list":                    {200, `[1,2,3]`, ErrNonsense},
	"a redirect":                {302, "", ErrNonsense},
	"truncated":                 {200, `{"header":{"cluster_id":"1","revision":"7"},"kvs":[{"key":"`, ErrNonsense},
	"wrong base64":              {200, `{"header":{"cluster_id":"1"},"result":{"header":{"cluster_id":"1"}},"kvs":[{"key":"!!","value":"%%"}],"responses":"!!","ID":{},"version":7}`, ErrNonsense},
	"a number out of range":     {200, `{"header":{"cluster_id":"99999999999999999999999"}}`, ErrNonsense},
	"10 MB":                     {200, `{"header":{"cluster_id":"1"},"version":"` + strings.Repeat("x", 10<<20) + `"}`, ErrNonsense},
	"10 MB of an error":         {500, strings.Repeat("x", 10<<20), ErrNonsense},
	"an error with line breaks": {503, `{"error":"no leader\nand \u001b[2J more","code":14}`, ErrUnavailable},
	"an error without a text":   {400, `{"code":14}`, ErrNonsense},
}

func TestNonsense(t *testing.T) {
	t.Parallel()
	for name, bad := range nonsense {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if bad.status == http.StatusFound {
					w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
				}
				w.WriteHeader(bad.status)
				io.WriteString(w, bad.content)
			}))
			t.Cleanup(srv.Close)
			allFail(t, open(t, Options{URL: "etcd://" + srv.Listener.Addr().String(), Timeout: patience}), "etcd http://127.0.0.1", bad.kind)
		})
	}
}

// twisted stands between a fleet and an etcd and changes its answers.
func twisted(t *testing.T, address string, twist func(route string, content []byte) []byte) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, err := http.Post("http://"+address+r.URL.Path, "application/json", r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		content, _ := io.ReadAll(resp.Body)
		w.WriteHeader(resp.StatusCode)
		w.Write(twist(r.URL.Path, content))
	}))
	t.Cleanup(srv.Close)
	return "etcd://" + srv.Listener.Addr().String()
}

// Answers that have the right shape and the wrong content.
func TestTwistedAnswers(t *testing.T) {
	t.Parallel()
	s := startEtcd(t)
	address := fmt.Sprintf("127.0.0.1:%d", s.port)
	straight := open(t, Options{URL: s.url()})
	push(t, straight, entryOf(1, 4, 20))
	for name, c := range map[string]struct {
		twist     func(route string, content []byte) []byte
		operation string
		want      string
	}{
		"another key than was asked for": {func(_ string, content []byte) []byte {
			return bytes.ReplaceAll(content, []byte(`"key":"L2`), []byte(`"key":"M2`))
		}, "push", "asked for entry/"},
		"a lease without an ID": {func(_ string, content []byte) []byte {
			return bytes.ReplaceAll(content, []byte(`"ID":"`), []byte(`"id_":"`))
		}, "claim", "a lease without an ID"},
		"a refusal without a reason": {func(route string, content []byte) []byte {
			if route != "/v3/kv/txn" {
				return content
			}
			return []byte(`{"header":{"cluster_id":"1"}}`)
		}, "claim", "does not say whose it is"},
	} {
		f := open(t, Options{URL: twisted(t, address, c.twist)})
		if err := operations[c.operation](t.Context(), f); !errors.Is(err, ErrNonsense) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	// A value that was changed on the way is left out, and the others are not.
	other := entryOf(1, 4, 20)
	other.Model = modelB
	push(t, straight, other)
	f := open(t, Options{URL: twisted(t, address, func(_ string, content []byte) []byte {
		var a rangeAnswer
		if json.Unmarshal(content, &a) != nil || len(a.Pairs) != 1 || !strings.Contains(string(a.Pairs[0].Key), modelB) {
			return content
		}
		before := base64.StdEncoding.EncodeToString(a.Pairs[0].Value)
		a.Pairs[0].Value[len(a.Pairs[0].Value)/2] ^= 1
		return bytes.Replace(content, []byte(before), []byte(base64.StdEncoding.EncodeToString(a.Pairs[0].Value)), 1)
	})})
	got, report, err := f.Pull(t.Context(), Query{Class: other.Class})
	if err != nil || len(got) != 1 || got[0].Model != modelA || len(report.Refused) != 1 || !strings.Contains(report.Refused[0], modelB) {
		t.Errorf("with one damaged entry: %v, %v, %v", got, report, err)
	}
}

// What a fleet costs etcd, in requests.
func TestRequests(t *testing.T) {
	t.Parallel()
	s := startEtcd(t)
	var n atomic.Int64
	f := open(t, Options{URL: twisted(t, fmt.Sprintf("127.0.0.1:%d", s.port), func(_ string, content []byte) []byte {
		n.Add(1)
		return content
	})})
	for _, c := range []struct {
		name string
		want int64
		do   func() error
	}{
		{"a pull of nothing", 1, func() error { return operations["pull"](t.Context(), f) }},
		{"a push", 2, func() error { return operations["push"](t.Context(), f) }},
		{"a push of what is there", 1, func() error { return operations["push"](t.Context(), f) }},
		{"a pull of one entry", 2, func() error { return operations["pull"](t.Context(), f) }},
		{"a look while waiting", 2, func() error { return operations["await"](t.Context(), f) }},
		{"a claim and its release", 4, func() error { return operations["claim"](t.Context(), f) }},
		{"a status", 3, func() error { return operations["status"](t.Context(), f) }},
	} {
		before := n.Load()
		if err := c.do(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := n.Load() - before; got != c.want {
			t.Errorf("%s: %d requests, want %d", c.name, got, c.want)
		}
	}
}

// One endpoint of two is enough, and the dead one is asked once.
func TestFailover(t *testing.T) {
	t.Parallel()
	s := startEtcd(t)
	live := fmt.Sprintf("127.0.0.1:%d", s.port)
	var asked atomic.Int64
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(broken.Close)
	f := open(t, Options{URL: fmt.Sprintf("etcd://%s,127.0.0.1:%d,%s", broken.Listener.Addr(), freePort(t), live)})
	push(t, f, entryOf(1, 4, 20))
	for name, do := range operations {
		if err := do(t.Context(), f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := asked.Load(); got != 1 {
		t.Errorf("the broken endpoint was asked %d times, want once", got)
	}
	if st, err := f.Status(t.Context()); err != nil || st.Endpoint != "http://"+live || st.Backend != "etcd" || st.Version == "" {
		t.Errorf("status %+v, %v", st, err)
	}
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { wait(r) }))
	t.Cleanup(silent.Close)
	past := open(t, Options{URL: fmt.Sprintf("etcd://%s,%s", silent.Listener.Addr(), live), Timeout: 3 * time.Second})
	if got := pull(t, past, 1); len(got) != 1 {
		t.Errorf("past a silent endpoint: %v", got)
	}
	s.kill()
	allFail(t, f, "(tried 3 endpoints)", ErrUnavailable)
}

// Killed in the midst of pushes and started again on the same data: nothing that was acknowledged is lost, and those
// who push carry on.
func TestKilledEtcd(t *testing.T) {
	t.Parallel()
	s := startEtcd(t)
	const pushers, rounds, kills = 8, 30, 2
	var acknowledged, failed atomic.Int64
	var last [pushers]int // blocks of the last push that was acknowledged
	var wg sync.WaitGroup
	for n := range pushers {
		f := open(t, Options{URL: s.url()})
		wg.Go(func() {
			for round := 1; round <= rounds; {
				_, err := f.Push(t.Context(), entryOf(n, 4, round))
				switch {
				case err == nil:
					last[n] = round
					acknowledged.Add(1)
					round++
				case errors.Is(err, ErrUnavailable) && !strings.Contains(err.Error(), "\n"):
					failed.Add(1)
					time.Sleep(10 * time.Millisecond)
				default:
					t.Errorf("pusher %d: %v", n, err)
					return
				}
			}
		})
	}
	for kill := range kills {
		for acknowledged.Load() < int64((kill+1)*pushers*rounds/(kills+1)) && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		before := failed.Load()
		s.kill()
		for failed.Load() == before && acknowledged.Load() < pushers*rounds && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		s.start()
	}
	wg.Wait()
	f := open(t, Options{URL: s.url()})
	for n := range pushers {
		if got := pull(t, f, n); len(got) != 1 || got[0].Blocks < last[n] {
			t.Errorf("pusher %d: %v is there, %d was acknowledged", n, got, last[n])
		}
	}
	if failed.Load() == 0 {
		t.Error("no push met the killed server")
	}
	t.Logf("%d kills among %d acknowledged pushes, %d pushes failed and were repeated, 0 lost", kills, acknowledged.Load(), failed.Load())
}

// A claim outlives a short absence of etcd.
func TestClaimOutlivesRestart(t *testing.T) {
	t.Parallel()
	s := startEtcd(t)
	f := open(t, Options{URL: s.url()})
	c, err := f.Claim(t.Context(), keyOf(1), "tuner", time.Minute)
	must(t, err)
	s.kill()
	s.start()
	must(t, c.lease.renew(t.Context()))
	if _, err := open(t, Options{URL: s.url()}).Claim(t.Context(), keyOf(1), "other", time.Minute); !isClaimedBy(err, "tuner") {
		t.Errorf("after the restart: %v", err)
	}
	must(t, c.Release(t.Context()))
}

// Out of its quota etcd still answers reads.
func TestQuota(t *testing.T) {
	t.Parallel()
	f := open(t, Options{URL: startEtcd(t, "--quota-backend-bytes", "400000").url()})
	e := entryOf(1, 4, 20)
	stored, full := 0, error(nil)
	for n := 0; n < 200 && full == nil; n++ {
		e.Model = fmt.Sprintf("%032x", n)
		e.Config = fmt.Appendf(nil, `{"threads":4,"filler":%q}`, strings.Repeat("x", 30_000))
		if _, full = f.Push(t.Context(), e); full == nil {
			stored++
		}
	}
	if !errors.Is(full, ErrFull) || !strings.Contains(full.Error(), "database space exceeded") {
		t.Fatalf("after %d entries: %v", stored, full)
	}
	if _, err := f.Claim(t.Context(), keyOf(2), "tuner", time.Minute); !errors.Is(err, ErrFull) {
		t.Errorf("claim: %v", err)
	}
	// etcd may keep the very write for which it raises the alarm.
	got, report, err := f.Pull(t.Context(), Query{Class: e.Class})
	if err != nil || len(got) < stored || len(got) > stored+1 || stored == 0 || len(report.Refused) > 0 {
		t.Errorf("pulled %d of %d: %v, %v", len(got), stored, report, err)
	}
	st, err := f.Status(t.Context())
	if err != nil || st.Entries != len(got) || !strings.Contains(strings.Join(st.Warnings, "\n"), "NOSPACE") {
		t.Errorf("status %+v, %v", st, err)
	}
	t.Logf("full after %d entries of 30 KB: %v", stored, full)
}

func TestRequestTooLarge(t *testing.T) {
	t.Parallel()
	f := open(t, Options{URL: startEtcd(t, "--max-request-bytes", "1000").url()})
	e := entryOf(1, 4, 20)
	e.Config = fmt.Appendf(nil, `{"threads":4,"filler":%q}`, strings.Repeat("x", 2000))
	if _, err := f.Push(t.Context(), e); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "request is too large") {
		t.Errorf("push: %v", err)
	}
}
