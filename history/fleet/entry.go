package fleet

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
)

// Entry is what is shared: a config with the summary of its proof, never raw samples.
type Entry struct {
	Key
	ModelName   string            `json:"model_name,omitempty"`
	Host        string            `json:"host"` // of whoever contributed this config: 32 hex digits
	Identity    map[string]string `json:"identity"`
	Envelope    map[string]string `json:"envelope,omitempty"` // limits under which it was measured
	Config      json.RawMessage   `json:"config"`
	Certificate json.RawMessage   `json:"certificate,omitempty"` // trimmed to what a reader of it needs
	Curve       json.RawMessage   `json:"curve,omitempty"`
	Blocks      int               `json:"blocks"` // paired blocks behind the regimes that were decided
	Evaluations int               `json:"evaluations"`
	Ratio       Ratio             `json:"ratio"`
	MeasuredAt  time.Time         `json:"measured_at"` // by the contributor's clock
	Hosts       int               `json:"hosts"`       // how many contributed to this key
	Generation  uint64            `json:"generation"`  // raised by each change of what is stored
}

// Ratio is default cost over best cost (above 1 the best is faster) with its interval; all are 0 where it is unknown.
type Ratio struct {
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// FromLearned is what of l is shared.
func FromLearned(l history.Learned) (Entry, error) { return Entry{}, errors.ErrUnsupported }

// Learned is e as a learned config.
func (e Entry) Learned() (history.Learned, error) { return history.Learned{}, errors.ErrUnsupported }
