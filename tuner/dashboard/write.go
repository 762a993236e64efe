package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

// order is what an operator asks for.
type order struct {
	By     string `json:"by"`
	Why    string `json:"why"`
	Config string `json:"config"` // hash of what the operator saw answer; "" = whatever answers
}

// mostLetters bounds each text of an order.
const mostLetters = 200

// anybody is who orders something without a name.
const anybody = "the dashboard"

// take makes a handler of something that changes the plan of a model. It answers with the plan from now on.
func (s *Server) take(write func(*Server, context.Context, string, order) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		model := r.PathValue("model")
		if !s.knows(model) {
			fail(w, http.StatusNotFound, fmt.Sprintf("the daemon has no model %q", model))
			return
		}
		o, status, err := readOrder(r)
		if err != nil {
			fail(w, status, err.Error())
			return
		}
		if err = s.stillAnswers(r.Context(), model, o.Config); err == nil {
			err = write(s, r.Context(), model, o)
		}
		s.forget()
		switch {
		case errors.Is(err, history.ErrBusy):
			fail(w, http.StatusServiceUnavailable, err.Error())
			return
		case err != nil: // it is not possible as things are
			fail(w, http.StatusConflict, err.Error())
			return
		}
		s.events.tell("changed", map[string]string{"model": model})
		plan, err := s.opt.Tuner.Plan(r.Context(), model)
		if err != nil {
			fail(w, http.StatusInternalServerError, err.Error())
			return
		}
		sendJSON(w, struct {
			Plan tuner.Plan `json:"plan"`
		}{plan})
	}
}

// readOrder reads the body of a write, and says which status belongs to what is wrong with it.
func readOrder(r *http.Request) (o order, status int, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return o, http.StatusUnsupportedMediaType, errors.New("want Content-Type application/json")
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&o)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return o, http.StatusRequestEntityTooLarge, fmt.Errorf("a body of more than %d bytes", large.Limit)
	case err != nil:
		return o, http.StatusBadRequest, fmt.Errorf(`body: %w; want {"by": "ada", "why": "…"}, both may be absent`, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return o, http.StatusBadRequest, errors.New("body: more than one JSON document")
	}
	for name, text := range map[string]string{"by": o.By, "why": o.Why} {
		if utf8.RuneCountInString(text) > mostLetters || strings.ContainsFunc(text, unicode.IsControl) {
			return o, http.StatusBadRequest, fmt.Errorf("body: %s: want at most %d letters of plain text", name, mostLetters)
		}
	}
	if o.By == "" {
		o.By = anybody
	}
	return o, 0, nil
}

// stillAnswers reports an error where another config answers than an operator saw: the daemon may have learned a better one
// while the order was written.
func (s *Server) stillAnswers(ctx context.Context, model, hash string) error {
	if hash == "" {
		return nil
	}
	plan, err := s.opt.Tuner.Plan(ctx, model)
	if err == nil && plan.Hash != hash {
		err = fmt.Errorf("config %q answers no more: look at %s, which does", hash, plan.Hash)
	}
	return err
}

func (s *Server) pin(ctx context.Context, model string, o order) error {
	return s.opt.Daemon.Pin(ctx, model, o.By)
}

func (s *Server) unpin(ctx context.Context, model string, o order) error {
	return s.opt.Daemon.Unpin(ctx, model, o.By)
}

func (s *Server) rollback(ctx context.Context, model string, o order) error {
	if o.Why == "" {
		o.Why = "an operator asked for it"
	}
	return s.opt.Daemon.Rollback(ctx, model, o.By, o.Why)
}
