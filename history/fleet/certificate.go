package fleet

import (
	"encoding/json"
	"fmt"

	"github.com/bitnet-autotune/bitnet-autotune/history"
)

// What is shared of a certificate: the proof of each regime, without the arms that did not win, the warnings, the name
// of the run, and whatever a later version adds before somebody has thought about sharing it.
var (
	sharedFields = []string{"verdict", "objective", "target", "best", "ratio", "noise_floor", "evaluations", "layouts"}
	sharedRegime = []string{"regime", "verdict", "ratio", "default", "best", "default_ns_per_token", "best_ns_per_token", "duel_blocks", "evaluations"}
)

// proof is what counts as evidence in a certificate.
type proof struct {
	Ratio     Ratio     `json:"ratio"`
	Regimes   []verdict `json:"regimes"`
	Inherited []verdict `json:"inherited"`
}

type verdict struct {
	Verdict string `json:"verdict"`
	Blocks  int    `json:"duel_blocks"`
}

// blocks counts what stands behind the verdicts that were reached.
func (p proof) blocks() (n int) {
	for _, list := range [][]verdict{p.Regimes, p.Inherited} {
		for _, v := range list {
			if v.Verdict == "ADOPT" || v.Verdict == "KEEP_DEFAULT" {
				n += v.Blocks
			}
		}
	}
	return n
}

// take fills what e says of the proof from a certificate.
func (e *Entry) take(certificate json.RawMessage) error {
	var p proof
	if err := json.Unmarshal(certificate, &p); err != nil {
		return err
	}
	e.Ratio, e.Blocks = p.Ratio, p.blocks()
	trimmed, err := trim(certificate)
	e.Certificate = trimmed
	return err
}

// trim leaves of a certificate what is shared.
func trim(certificate json.RawMessage) (json.RawMessage, error) {
	whole, kept, err := pick(certificate, sharedFields)
	if err != nil {
		return nil, err
	}
	for _, field := range []string{"regimes", "inherited"} {
		var list, short []json.RawMessage
		if doc, ok := whole[field]; ok {
			if err := json.Unmarshal(doc, &list); err != nil {
				return nil, fmt.Errorf("%s: %w", field, err)
			}
		}
		for _, doc := range list {
			_, regime, err := pick(doc, sharedRegime)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", field, err)
			}
			if doc, err = history.Marshal(regime); err != nil {
				return nil, err
			}
			short = append(short, doc)
		}
		if len(short) > 0 {
			if kept[field], err = history.Marshal(short); err != nil {
				return nil, err
			}
		}
	}
	doc, err := history.Marshal(kept)
	if err != nil {
		return nil, err
	}
	return history.Canonical(doc)
}

// pick returns the fields of a JSON object, and those of them that are named.
func pick(doc json.RawMessage, names []string) (whole, kept map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(doc, &whole); err != nil {
		return nil, nil, err
	}
	kept = map[string]json.RawMessage{}
	for _, name := range names {
		if value, ok := whole[name]; ok {
			kept[name] = value
		}
	}
	return whole, kept, nil
}
