package dashboard

import (
	"bufio"
	"context"
	"encoding/json"

	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/advisor"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/daemon"
)

// received is one event as a stream brings it.
type received struct{ id, kind, data string }

// listening is an open stream.
type listening struct {
	t      *testing.T
	body   io.ReadCloser
	reader *bufio.Reader
}

func listen(v *site, headers ...string) *listening {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), "GET", v.url+"/api/v1/events", nil)
	if err != nil {
		v.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { reply.Body.Close() })
	if reply.StatusCode != http.StatusOK || reply.Header.Get("Content-Type") != "text/event-stream" {
		v.t.Fatalf("%d %v", reply.StatusCode, reply.Header)
	}
	return &listening{v.t, reply.Body, bufio.NewReader(reply.Body)}
}

// next is the next event, comments and the advice when to come again left out.
func (l *listening) next() (received, error) {
	var e received
	for {
		line, err := l.reader.ReadString('\n')
		if err != nil {
			return e, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case name == "id":
			e.id = value
		case name == "event":
			e.kind = value
		case name == "data":
			e.data = value
		case line == "\n" && e.kind != "":
			return e, nil
		}
	}
}

// until is the next event that is wanted.
func (l *listening) until(wanted func(received) bool) received {
	l.t.Helper()
	for {
		e, err := l.next()
		if err != nil {
			l.t.Fatal(err)
		}
		if wanted(e) {
			return e
		}
	}
}

func ofKind(kind string) func(received) bool { return func(e received) bool { return e.kind == kind } }

func TestEventsTellWhatHappens(t *testing.T) {
	v := open(t, t.TempDir(), nil)
	l := listen(v)
	first, err := l.next()
	var state daemon.State
	if err != nil || first.kind != "state" || first.id == "" || json.Unmarshal([]byte(first.data), &state) != nil || len(state.Models) != 1 || len(state.Events) != 0 {
		t.Fatalf("the first event is %+v, %v; want the state without its events", first, err)
	}
	if status, answer := v.order("pin", `{"by": "ada"}`); status != http.StatusOK {
		t.Fatalf("%d: %s", status, answer)
	}
	seen := map[string]bool{}
	var log received
	l.until(func(e received) bool {
		seen[e.kind] = true
		var model struct{ Model string }
		if e.kind == "changed" && json.Unmarshal([]byte(e.data), &model) == nil && model.Model == anyModel {
			seen["of the model"] = true
		}
		if e.kind == "log" && strings.Contains(e.data, "pinned by ada") {
			log = e
		}
		return log.id != "" && seen["of the model"]
	})
	l.until(func(e received) bool { // the daemon sees it soon
		return e.kind == "state" && json.Unmarshal([]byte(e.data), &state) == nil && state.Models[0].Plan.Source == tuner.Pinned
	})
	t.Run("a reader that comes again gets what it missed", func(t *testing.T) {
		again := listen(v, "Last-Event-ID", first.id)
		if e := again.until(func(e received) bool { return e.kind == "log" || e.kind == "state" }); e != log {
			t.Errorf("%+v comes first, want %+v", e, log)
		}
		if e := listen(v, "Last-Event-ID", log.id).until(func(e received) bool { return e.kind == "log" || e.kind == "state" }); e.kind != "state" {
			t.Errorf("%+v was seen already", e)
		}
	})
	for _, id := range []string{"0-0", "nonsense", log.id + "0", "-1", strings.Repeat("9", 100)} {
		if e, err := listen(v, "Last-Event-ID", id).next(); err != nil || e.kind != "state" {
			t.Errorf("after id %q of nobody: %+v, %v; want the state alone", id, e, err)
		}
	}
}

func TestEventsTellThatMoreIsKnown(t *testing.T) {
	v := open(t, t.TempDir(), nil)
	l := listen(v)
	l.until(ofKind("state"))
	learn(t, openSimulated(t, v.store)) // as a child does, in another process
	l.until(ofKind("changed"))
	var c curves
	v.get(modelPath+"/convergence", &c)
	if len(c.Runs) == 0 {
		t.Error("no run is shown after it was told that there is more")
	}
}

func TestStreamsWithoutNewsGoOn(t *testing.T) {
	v := openTweaked(t, t.TempDir(), []string{anyModel}, nil, func(s *Server) { s.pace.beat, s.pace.request = 5*time.Millisecond, 20*time.Millisecond })
	l := listen(v)
	for beats := 0; beats < 10; { // longer than a request may take
		line, err := l.reader.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, ":") {
			beats++
		}
	}
}

// A reader that does not read is left behind, and the others hear on.
func TestAStreamThatLagsBehindEnds(t *testing.T) {
	h := newHub(time.Unix(1, 0))
	slow, _, _, _ := h.open("")
	quick, _, _, _ := h.open("")
	for i := range 3 * mostBehind {
		h.tell("log", i)
		if m, open := <-quick; !open || m.number != uint64(i+1) {
			t.Fatalf("message %d: %d, %t", i, m.number, open)
		}
	}
	heard := 0
	for range slow {
		heard++
	}
	if heard != mostBehind || h.count() != 1 {
		t.Errorf("the slow one heard %d, %d streams are left", heard, h.count())
	}
	h.leave(slow) // its handler does, after it ended
	h.close()
	h.leave(quick)
	if _, _, _, ok := h.open(""); ok {
		t.Error("a stream begins after the end")
	}
}

func TestManyStreams(t *testing.T) {
	v := open(t, t.TempDir(), nil)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	results := make(chan *http.Response)
	for range 1000 {
		go func() {
			r, _ := http.NewRequestWithContext(t.Context(), "GET", v.url+"/api/v1/events", nil)
			reply, err := client.Do(r)
			if err != nil {
				reply = nil
			}
			results <- reply
		}()
	}
	counts := map[int]int{}
	for range 1000 {
		reply := <-results
		if reply == nil {
			counts[0]++
			continue
		}
		t.Cleanup(func() { reply.Body.Close() })
		if counts[reply.StatusCode]++; reply.StatusCode != http.StatusOK {
			reply.Body.Close()
		}
	}
	if counts[http.StatusOK] != mostStreams || counts[http.StatusServiceUnavailable] != 1000-mostStreams {
		t.Errorf("%v, want %d streams and 503 for the rest", counts, mostStreams)
	}
	if status, _, body := v.ask("GET", "/api/v1/state", ""); status != http.StatusOK {
		t.Errorf("beside the streams: %d %s", status, body)
	}
}

func TestTheEndEndsStreams(t *testing.T) {
	v := open(t, t.TempDir(), nil)
	var streams []*listening
	for range 5 {
		l := listen(v)
		l.until(ofKind("state"))
		streams = append(streams, l)
	}
	if err := v.end(); err != nil {
		t.Fatal(err)
	}
	for _, l := range streams {
		if rest, err := io.ReadAll(l.reader); err != nil {
			t.Errorf("a stream was torn after %q: %v", rest, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	for { // what has ended may take a moment to go
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if !strings.Contains(string(stacks), "dashboard.(*Server)") && !strings.Contains(string(stacks), "dashboard.(*hub)") {
			return
		}
		if t.Context().Err() != nil {
			t.Fatalf("left behind:\n%s", stacks)
		}
		time.Sleep(time.Millisecond)
	}
}

// A request that is being answered when the server ends is answered.
func TestTheEndWaitsForAnswers(t *testing.T) {
	begun, proceed := make(chan struct{}), make(chan struct{})
	v := openTweaked(t, t.TempDir(), []string{anyModel}, func(o *Options) {
		advise := o.Advise
		o.Advise = func(ctx context.Context, model string) (advisor.Report, error) {
			close(begun)
			<-proceed
			return advise(ctx, model)
		}
	}, func(s *Server) { s.pace.last = time.Minute })
	answered := make(chan string)
	go func() {
		reply, err := http.Get(v.url + modelPath + "/advice")
		if err != nil {
			answered <- err.Error()
			return
		}
		reply.Body.Close()
		answered <- reply.Status
	}()
	<-begun
	ended := make(chan error)
	go func() { ended <- v.end() }()
	for { // until nobody is let in any more
		c, err := http.Get(v.url + "/healthz")
		if err != nil {
			break
		}
		c.Body.Close()
	}
	close(proceed)
	if got := <-answered; got != "200 OK" {
		t.Error(got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
