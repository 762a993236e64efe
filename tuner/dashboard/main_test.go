package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/advisor"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/daemon"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/idle"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

const anyModel = "bitnet-embedding-270m"

// modelPath is where the API has a model.
const modelPath = "/api/v1/models/" + anyModel

// simulated is a target on a virtual clock, on which chunked arms are truly 5 % faster than the default.
type simulated struct{ host *measuretest.Simulator }

func (s simulated) Name() string { return "simulated" }
func (s simulated) Close() error { return nil }

func (s simulated) Prepare(ctx context.Context, r target.Regime, a target.Arm) (measure.Subject, error) {
	took := 10 * time.Millisecond
	if a.Blocking.ChunkRows > 0 {
		took = took * 100 / 105
	}
	return s.host.Arm(fmt.Sprintf("%s %+v", r, a), took), ctx.Err()
}

// simulatedHost has four cores.
var simulatedHost = probe.Host{OS: "linux", Arch: "amd64", CPU: probe.CPU{
	Model: "Simulated CPU", Vendor: "None", PhysicalCores: 4, LogicalCores: 4, UsableCores: 4, UsablePhysical: 4,
	CPUs: []int{0, 1, 2, 3}, ThreadsPerCore: 1, NUMANodes: 1, Features: probe.SSE42 | probe.AVX | probe.AVX2 | probe.NEON,
}, Memory: probe.Memory{TotalBytes: 16 << 30, AvailableBytes: 8 << 30, LimitBytes: 16 << 30}, HugePages: "never", Warnings: []string{}}

func openSimulated(t *testing.T, store string) *tuner.Tuner {
	t.Helper()
	s := simulated{measuretest.New(1, measuretest.Jitter(0.005))}
	begin, host := time.Now().Add(-20*time.Second), simulatedHost // so that what it learns lies in the past
	tuned, err := tuner.Open(tuner.Options{
		Store: store, Host: &host,
		CUDA: func() (*driver.Driver, error) { return nil, &driver.Error{Op: "dlopen", Kind: driver.ErrNoDriver} },
		Now:  func() time.Time { return begin.Add(s.host.Now()) },
		Rig: func(context.Context, tuner.Problem, uint64) (tuner.Rig, error) {
			return tuner.Rig{Target: s, Timer: s.host.Timer(1)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tuned.Close() })
	return tuned
}

// learn lets the simulated host tune the model once.
func learn(t *testing.T, tuned *tuner.Tuner) *tuner.Certificate {
	t.Helper()
	cert, err := tuned.Tune(t.Context(), anyModel, tuner.Budget{Time: 20 * time.Second, Target: "cpu", Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// site is a daemon with its page.
type site struct {
	t      *testing.T
	server *Server
	tuner  *tuner.Tuner
	daemon *daemon.Daemon
	store  string
	url    string // without the last slash
	token  string
	end    func() error // both; what Serve returned
}

// open starts a daemon in mode use over a store, and its page on a port of its own. change may alter the options. Without
// models it has one.
func open(t *testing.T, store string, change func(*Options), models ...string) *site {
	t.Helper()
	if len(models) == 0 {
		models = []string{anyModel}
	}
	return openTweaked(t, store, models, change, nil)
}

// openTweaked is open for what no option says.
func openTweaked(t *testing.T, store string, models []string, change func(*Options), tweak func(*Server)) *site {
	t.Helper()
	v := &site{t: t, store: store, tuner: openSimulated(t, store)}
	ready, served := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	opt := daemon.Options{
		Tuner: v.tuner, Store: store, Models: models, Child: []string{"false"}, Mode: tuner.ModeUse, Look: 2 * time.Millisecond,
		Lock: filepath.Join(t.TempDir(), "host.lock"), Log: zerolog.Nop(),
		Read:       func() idle.Reading { return idle.Reading{} },
		Conditions: func(context.Context) (map[string]string, error) { return nil, nil },
		Ready: func() (err error) {
			defer close(ready)
			shown := Options{
				Daemon: v.daemon, Tuner: v.tuner, Store: store, Build: "test", Listen: "127.0.0.1:0", Log: zerolog.Nop(),
				Machine: func(context.Context) (gpu.Machine, error) {
					return gpu.Machine{Fingerprint: simulatedHost.Fingerprint(), Host: simulatedHost, Survey: gpu.Survey{GPUs: []gpu.GPU{}, Note: "nobody looked"}}, nil
				},
				Advise: func(_ context.Context, name string) (advisor.Report, error) {
					m, loaded := model.Load(name)
					a, err := advisor.New(advisor.Options{})
					return a.Advise(advisor.Context{Host: simulatedHost, Model: &m, Current: advisor.Settings{"threads": "4", "layout": "i2s"}}), errors.Join(err, loaded)
				},
			}
			if change != nil {
				change(&shown)
			}
			if v.server, err = New(shown); err != nil {
				return err
			}
			v.server.pace.look = 5 * time.Millisecond
			if tweak != nil {
				tweak(v.server)
			}
			return v.server.Listen()
		},
	}
	var err error
	if v.daemon, err = daemon.New(opt); err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- v.daemon.Run(ctx) }()
	<-ready
	if v.server == nil || v.server.listener == nil {
		cancel()
		t.Fatal(<-ran)
	}
	go func() { served <- v.server.Serve(ctx) }()
	for v.daemon.State().Phase == daemon.Stopped { // its loop begins at once
		time.Sleep(time.Millisecond)
	}
	v.url = strings.TrimSuffix(v.server.URL(), "/")
	text, err := readBounded(v.server.opt.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	v.token = strings.TrimSpace(string(text))
	v.end = sync.OnceValue(func() error {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		return <-served
	})
	t.Cleanup(func() {
		if err := v.end(); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return v
}

// ask sends a request; headers are names and values in turn.
func (v *site) ask(method, path, body string, headers ...string) (status int, header http.Header, answer []byte) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.url+path, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer reply.Body.Close()
	if answer, err = io.ReadAll(reply.Body); err != nil {
		v.t.Fatal(err)
	}
	return reply.StatusCode, reply.Header, answer
}

// get decodes a view.
func (v *site) get(path string, into any) {
	v.t.Helper()
	status, _, body := v.ask("GET", path, "")
	if status != http.StatusOK {
		v.t.Fatalf("%s: %d: %s", path, status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		v.t.Fatalf("%s: %v\n%s", path, err, body)
	}
}

// order posts a write as the page does.
func (v *site) order(what, body string) (status int, answer []byte) {
	v.t.Helper()
	status, _, answer = v.ask("POST", modelPath+"/"+what, body, "Authorization", "Bearer "+v.token, "Content-Type", "application/json", "Origin", v.url, "Sec-Fetch-Site", "same-origin")
	return status, answer
}
