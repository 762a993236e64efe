package main

import (
	"context"
	"errors"
	"strings"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

// The exit codes of every verb.
const (
	exitDone         = 0
	exitError        = 1
	exitUsage        = 2
	exitInconclusive = 3 // or nothing learned where something learned was demanded
	exitBusy         = 4 // or no budget
	exitUnverified   = 5
)

// coded is an error with the exit code it asks for.
type coded struct {
	code int
	err  error
}

func (c coded) Error() string { return c.err.Error() }
func (c coded) Unwrap() error { return c.err }

// usage marks an error as the caller's wrong use of the command.
func usage(err error) error { return coded{exitUsage, err} }

// errSilent goes with a code when the result printed already says everything.
var errSilent = errors.New("said already")

// silently ends with a code and no further word.
func silently(code int) error { return coded{code, errSilent} }

func exitCode(err error) int {
	var c coded
	switch {
	case errors.As(err, &c):
		return c.code
	case errors.Is(err, tuner.ErrFrozen):
		return exitUnverified
	case errors.Is(err, tuner.ErrMode), errors.Is(err, tuner.ErrBadBudget), errors.Is(err, tuner.ErrBadBench), errors.Is(err, model.ErrUnknown):
		return exitUsage
	case errors.Is(err, tuner.ErrBusy), errors.Is(err, history.ErrBusy), errors.Is(err, tuner.ErrNoBudget):
		return exitBusy
	case errors.Is(err, tuner.ErrNothingLearned), errors.Is(err, tuner.ErrNothingShared):
		return exitInconclusive
	case errors.Is(err, context.Canceled):
		return exitError
	case isCobraUsage(err):
		return exitUsage
	}
	return exitError
}

// isCobraUsage recognises what cobra itself refuses; it has no error types for these.
func isCobraUsage(err error) bool {
	for _, start := range []string{"unknown command", "unknown flag", "unknown shorthand", "accepts ", "requires at least", "required flag", "if any flags in the group", "invalid argument"} {
		if strings.HasPrefix(err.Error(), start) {
			return true
		}
	}
	return false
}
