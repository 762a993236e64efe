package tuner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
)

// Pin makes config the answer for a model on this store until Unpin, whatever is learned. A config that is not
// possible on this host is refused.
func (t *Tuner) Pin(ctx context.Context, model string, config Config, by string) error {
	if t.opt.Store == "" {
		return errors.New("pin: no store to keep it in: name a directory")
	}
	p, err := t.problem(ctx, model)
	if err != nil {
		return err
	}
	if p = p.on(config.target()); p.Target == targetCUDA {
		if p.Card, err = t.card(ctx, ""); err != nil {
			return fmt.Errorf("pin: %w", err)
		}
	}
	if err := p.validate(config); err != nil {
		return fmt.Errorf("pin: %w", err)
	}
	data, err := json.Marshal(config)
	if err != nil {
		panic("tuner: a config always marshals")
	}
	store, err := history.Open(t.opt.Store, history.Options{})
	if err != nil {
		return err
	}
	defer t.forget()
	return store.SetPin(ctx, history.Pin{Model: p.Model.Fingerprint(), Config: data, By: by, At: time.Now()})
}

// Unpin lets what was learned answer again. A model that is not pinned is an error.
func (t *Tuner) Unpin(ctx context.Context, model string) error {
	p, err := t.problem(ctx, model)
	if err != nil {
		return err
	}
	if there, err := t.readStore(); err != nil {
		return err
	} else if there == nil {
		return fmt.Errorf("unpin: %s is not pinned: there is no history in %q", p.Model.Name, t.opt.Store)
	}
	store, err := history.Open(t.opt.Store, history.Options{})
	if err != nil {
		return err
	}
	defer t.forget()
	found, err := store.RemovePin(ctx, p.Model.Fingerprint())
	if err == nil && !found {
		return fmt.Errorf("unpin: %s is not pinned", p.Model.Name)
	}
	return err
}
