package gpu

import (
	"context"
	"fmt"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

// Options is how to look for GPUs. The zero value is right.
type Options struct {
	// Timeout is how long NVML may take; if 0, 10 s. Waking up the driver of a server with 8 cards takes seconds when no
	// process keeps it awake.
	Timeout time.Duration
}

const defaultTimeout = 10 * time.Second

// session is an open connection to NVML.
type session interface {
	survey() Survey
	uuids() []string
	memory(uuid string) (m Memory, utilization float64, err error)
	close()
}

// Local finds the GPUs of this host. It makes no CUDA context. Without any it says why, on a host without a driver within
// a millisecond; none is not an error.
func Local(ctx context.Context, opt Options) Survey {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	return local(ctx, opt, func() (session, error) { return alone(waiting, looking, connect) })
}

// looking is held by who asks NVML for a survey.
var looking = make(chan struct{}, 1)

// alone connects where nobody else does. Of the looks at a driver that hangs, which may be many in a daemon, one is then left
// behind, with its thread, and not each.
func alone(ctx context.Context, looking chan struct{}, connect func() (session, error)) (session, error) {
	select {
	case looking <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s, err := connect()
	if err != nil {
		<-looking
		return nil, err
	}
	return lone{s, looking}, nil
}

// lone is a session beside which there is no other.
type lone struct {
	session
	looking chan struct{}
}

func (l lone) close() {
	l.session.close()
	<-l.looking
}

func local(ctx context.Context, opt Options, connect func() (session, error)) Survey {
	if probe.Disabled("cuda") {
		return Survey{GPUs: []GPU{}, Note: "BITNET_AUTOTUNE_DISABLE switches off cuda"}
	}
	timeout := opt.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	found := make(chan Survey, 1) // a call that is stuck in C cannot be stopped: it is left behind
	go func() {
		s, err := connect()
		if err != nil {
			found <- Survey{Note: err.Error()}
			return
		}
		defer s.close()
		found <- s.survey()
	}()
	var survey Survey
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case survey = <-found:
	case <-timer.C:
		survey.Note = fmt.Sprintf("NVML did not answer within %v", timeout)
	case <-ctx.Done():
		survey.Note = fmt.Sprintf("NVML did not answer in time: %v", ctx.Err())
	}
	if survey.GPUs == nil {
		survey.GPUs = []GPU{}
	}
	return survey
}
