package dashboard

import (
	"encoding/json"
	"net/http"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/daemon"
)

// ready says whether the daemon can do its work: the store can be read, and every model has a first plan. Why not is a
// reason that tells nothing of the host, since nobody needs a token to ask.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	why := s.unready()
	w.Header().Set("Content-Type", "application/json")
	if why != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(struct {
		Ready  bool   `json:"ready"`
		Reason string `json:"reason"`
	}{why == "", why})
}

func (s *Server) unready() string {
	if _, err := s.published(); err != nil {
		return "what was learned cannot be read"
	}
	state := s.opt.Daemon.State()
	if state.Phase == daemon.Stopped {
		return "the daemon has not begun, or has ended"
	}
	for _, m := range state.Models {
		if m.Error != "" || m.Plan.Source == "" {
			return "a model has no plan yet"
		}
	}
	return ""
}
