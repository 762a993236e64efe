package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/daemon"
)

// Bounds of the event streams.
const (
	mostStreams = 64
	mostBehind  = 64 // messages that a stream may lag behind before it is ended; its reader comes again
	mostReplays = 256
	retryMillis = 2000
	sendTime    = 10 * time.Second
)

// message is one event as it is sent.
type message struct {
	number uint64
	text   []byte
}

// hub sends events to all streams. The zero of its numbers is the beginning of this server, which is in the ids, so that an id
// of an earlier server is recognised.
type hub struct {
	epoch string

	mu      sync.Mutex
	number  uint64
	streams map[chan message]bool
	latest  []message // without states, of which only the last means anything
	closed  bool
}

func newHub(now time.Time) *hub {
	return &hub{epoch: fmt.Sprintf("%x", now.UnixNano()), streams: map[chan message]bool{}}
}

// tell sends an event.
func (h *hub) tell(kind string, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		return // who asks for the view of it is told
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.number++
	m := message{h.number, fmt.Appendf(nil, "id: %s-%d\nevent: %s\ndata: %s\n\n", h.epoch, h.number, kind, text)}
	if kind != stateEvent {
		h.latest = append(h.latest, m)
		h.latest = h.latest[max(0, len(h.latest)-mostReplays):]
	}
	for ch := range h.streams {
		select {
		case ch <- m:
		default:
			delete(h.streams, ch)
			close(ch)
		}
	}
}

// open adds a stream, and returns with it what it missed since the event of an id, and the id of now. It is not ok if there
// are too many.
func (h *hub) open(last string) (ch chan message, missed []message, id string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.streams) >= mostStreams {
		return nil, nil, "", false
	}
	ch = make(chan message, mostBehind)
	h.streams[ch] = true
	epoch, number, _ := strings.Cut(last, "-")
	var after uint64
	if _, err := fmt.Sscan(number, &after); err == nil && epoch == h.epoch {
		for _, m := range h.latest {
			if m.number > after {
				missed = append(missed, m)
			}
		}
	}
	return ch, missed, fmt.Sprintf("%s-%d", h.epoch, h.number), true
}

func (h *hub) leave(ch chan message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams[ch] {
		delete(h.streams, ch)
		close(ch)
	}
}

// close ends all streams, and lets none begin.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for ch := range h.streams {
		delete(h.streams, ch)
		close(ch)
	}
}

// count is how many streams there are.
func (h *hub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.streams)
}

// stateEvent is the kind of event that carries the state.
const stateEvent = "state"

// watch tells what the daemon does and what changes in the store until ctx ends. Nothing is looked at while nobody watches.
func (h *hub) watch(ctx context.Context, s *Server) {
	log, stop := s.opt.Daemon.Subscribe()
	defer stop()
	tick := time.NewTicker(s.pace.look)
	defer tick.Stop()
	var seen sight
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-log:
			h.tell("log", e)
		case <-tick.C:
			if h.count() > 0 {
				seen.look(s)
			}
		}
	}
}

// sight is what was seen last.
type sight struct {
	state      []byte
	stamp      string
	generation uint64 // of the snapshot
}

// look tells what is not as it was.
func (v *sight) look(s *Server) {
	now := shortState(s.opt.Daemon)
	if state, err := json.Marshal(now.unclocked()); err == nil && !bytes.Equal(state, v.state) {
		v.state = state
		s.events.tell(stateEvent, now)
	}
	stamp, err := history.Stamp(s.opt.Store)
	snapshot, _ := s.published() // what cannot be read is told by who asks for it
	if err == nil && (stamp != v.stamp || snapshot.Generation != v.generation) {
		v.stamp, v.generation = stamp, snapshot.Generation
		s.events.tell("changed", map[string]string{"model": ""})
	}
}

// shortened is a state without its events, which come one by one.
type shortened struct{ daemon.State }

func shortState(d *daemon.Daemon) shortened {
	s := shortened{d.State()}
	s.Events = []daemon.Event{}
	return s
}

// unclocked is the state without what differs each time.
func (s shortened) unclocked() daemon.State {
	s.At, s.Host.Over = time.Time{}, 0
	return s.State
}

// stream sends events for as long as somebody listens.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	ch, missed, id, ok := s.events.open(r.Header.Get("Last-Event-ID"))
	if !ok {
		w.Header().Set("Retry-After", "10")
		w.Header().Set("Connection", "close")
		fail(w, http.StatusServiceUnavailable, fmt.Sprintf("more than %d streams of events", mostStreams))
		return
	}
	defer s.events.leave(ch)
	state, err := json.Marshal(shortState(s.opt.Daemon))
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // a stream outlives what a request may take
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	send := func(text []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(sendTime))
		_, err := w.Write(text)
		return err == nil && control.Flush() == nil
	}
	begin := fmt.Appendf(nil, "retry: %d\n\n", retryMillis)
	for _, m := range missed {
		begin = append(begin, m.text...)
	}
	begin = fmt.Appendf(begin, "id: %s\nevent: %s\ndata: %s\n\n", id, stateEvent, state)
	if !send(begin) {
		return
	}
	beat := time.NewTicker(s.pace.beat)
	defer beat.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case m, open := <-ch:
			if !open || !send(m.text) {
				return
			}
		case <-beat.C:
			if !send([]byte(": still here\n\n")) {
				return
			}
		}
	}
}
