package dashboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
)

// view is something to look at: a JSON object that is made when it is asked for, and kept for a while.
type view struct {
	path  string
	fresh time.Duration
	make  func(s *Server, ctx context.Context, model string) (any, error)
}

// views are all of them. API.md says what they hold.
var views = []view{
	{"/api/v1/state", time.Second / 5, (*Server).state},
	{"/api/v1/host", 2 * time.Second, (*Server).machine},
	{"/api/v1/models", time.Second, (*Server).models},
	{"/api/v1/models/{model}/plan", time.Second, (*Server).plan},
	{"/api/v1/models/{model}/explain", 5 * time.Second, (*Server).explain},
	{"/api/v1/models/{model}/certificate", time.Second, (*Server).certificate},
	{"/api/v1/models/{model}/convergence", time.Second, (*Server).convergence},
	{"/api/v1/models/{model}/kernels", time.Second, (*Server).kernels},
	{"/api/v1/models/{model}/space", time.Second, (*Server).space},
	{"/api/v1/models/{model}/timeline", time.Second, (*Server).timeline},
	{"/api/v1/models/{model}/advice", 30 * time.Second, (*Server).advice},
	{"/api/v1/engines", time.Second, (*Server).engines},
	{"/api/v1/fleet", time.Second, (*Server).fleet},
}

// writes are what changes something, by the last part of the path.
var writes = map[string]func(*Server, context.Context, string, order) error{
	"pin":      (*Server).pin,
	"unpin":    (*Server).unpin,
	"rollback": (*Server).rollback,
}

// handler answers all that is asked.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	page := s.bounded(http.HandlerFunc(servePage))
	mux.Handle("GET /{$}", page)
	mux.Handle("GET /{file}", page)
	for _, v := range views {
		mux.Handle("GET "+v.path, s.bounded(s.show(v)))
	}
	for name, write := range writes {
		mux.Handle("POST /api/v1/models/{model}/"+name, s.bounded(s.writable(s.take(write))))
	}
	mux.HandleFunc("GET /api/v1/events", s.stream)
	mux.Handle("GET /metrics", s.bounded(http.HandlerFunc(s.metrics)))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { sendJSON(w, map[string]bool{"ok": true}) })
	mux.Handle("GET /readyz", s.bounded(http.HandlerFunc(s.ready)))
	return s.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" {
			w = refusal{w}
		}
		mux.ServeHTTP(w, r)
	}))
}

// answer is a view as it is sent.
type answer struct {
	at     time.Time
	fields []byte // of the object, from its second byte on
	tag    string
}

// nothing is what is shown where there is nothing yet. It is no error: a browser would log it as one.
type nothing struct {
	None   string `json:"none"`
	Damage string `json:"damage,omitempty"` // maybe there was something
}

// show sends a view.
func (s *Server) show(v view) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		model := r.PathValue("model")
		if strings.Contains(v.path, "{model}") && !s.knows(model) {
			fail(w, http.StatusNotFound, fmt.Sprintf("the daemon has no model %q", model))
			return
		}
		a, err := s.answer(r.Context(), v, model)
		switch {
		case errors.Is(err, history.ErrBusy) || errors.Is(err, context.DeadlineExceeded):
			w.Header().Set("Retry-After", "2")
			fail(w, http.StatusServiceUnavailable, err.Error())
		case err != nil:
			fail(w, http.StatusInternalServerError, err.Error())
		default:
			a.send(w, r)
		}
	})
}

// answer is what a view shows now, or showed a moment ago.
func (s *Server) answer(ctx context.Context, v view, model string) (answer, error) {
	key := strings.Replace(v.path, "{model}", model, 1)
	return s.keptAnswer(key).get(ctx, s.opt.Now, v.fresh, func(ctx context.Context, _ answer) (answer, error) {
		shown, err := v.make(s, ctx, model)
		if err != nil {
			return answer{}, err
		}
		return newAnswer(s.opt.Now(), shown)
	})
}

func newAnswer(at time.Time, shown any) (answer, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // it is JSON and said to be
	if err := encoder.Encode(shown); err != nil {
		return answer{}, fmt.Errorf("it cannot be shown: %w", err)
	}
	sum := sha256.Sum256(text.Bytes())
	return answer{at, text.Bytes()[1:], fmt.Sprintf(`"%x"`, sum[:8])}, nil
}

// send writes the object, with as_of as its first field.
func (a answer) send(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Etag", a.tag)
	if r.Header.Get("If-None-Match") == a.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	begin := fmt.Sprintf(`{"as_of":"%s"`, a.at.UTC().Format(time.RFC3339Nano))
	if len(a.fields) > 0 && a.fields[0] != '}' {
		begin += ","
	}
	_, _ = w.Write(append([]byte(begin), a.fields...))
}

// keptAnswer is the place of a view. There are no more of them than views times models.
func (s *Server) keptAnswer(key string) *kept[answer] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers[key] == nil {
		s.answers[key] = newKept[answer](s.life)
	}
	return s.answers[key]
}

// forget makes the next look at anything a new one, since an operator has changed something.
func (s *Server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.answers)
}

// knows reports whether the daemon has a model.
func (s *Server) knows(name string) bool {
	for _, m := range s.opt.Daemon.State().Models {
		if m.Name == name {
			return true
		}
	}
	return false
}

func sendJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
