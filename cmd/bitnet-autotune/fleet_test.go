package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/history/fleet"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// learn puts into a store what a run would that proved the heuristic: learn STORE MODEL. A real run on a loaded machine
// may decide nothing.
func learn(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: learn store model")
	}
	host, err := probe.Local(context.Background())
	ts.Check(err)
	m, err := model.Load(ts.MkAbs(args[1]))
	ts.Check(err)
	p := tuner.Problem{Host: host, Model: m, Target: "cpu", Objective: tuner.ObjectiveMixed}
	best, standard := p.Heuristic(), p.Default()
	c := tuner.Certificate{Verdict: measure.Adopt, Objective: p.Objective, Target: p.Target, Best: tuner.Rated{Config: best}}
	for _, r := range tuner.Regimes {
		c.Regimes = append(c.Regimes, tuner.RegimeVerdict{
			Regime: r, Verdict: measure.Adopt, Default: standard.Arm(r), Best: best.Arm(r), Blocks: 10, Ratio: tuner.Ratio{Estimate: 1.5, Low: 1.4, High: 1.6},
		})
	}
	proof, err := json.Marshal(c)
	ts.Check(err)
	config, err := json.Marshal(best)
	ts.Check(err)
	store, err := history.Open(ts.MkAbs(args[0]), history.Options{})
	ts.Check(err)
	ts.Check(store.Publish(context.Background(), history.Learned{
		Host: host.Fingerprint(), Model: m.Fingerprint(), ModelName: m.Name, Target: p.Target, Objective: string(p.Objective), Signature: kernels.Signature(),
		Identity: byName(host.Identity()), Envelope: byName(host.Envelope()), Condition: byName(host.Condition()),
		Config: config, Certificate: proof, MeasuredAt: time.Now(), Evaluations: 3,
	}))
}

func byName(list []probe.Field) map[string]string {
	fields := map[string]string{}
	for _, f := range list {
		fields[f.Name] = f.Value
	}
	return fields
}

// eachFile calls fn with every file under a directory.
func eachFile(ts *testscript.TestScript, dir string, fn func(path string, content []byte)) {
	n := 0
	ts.Check(filepath.WalkDir(ts.MkAbs(dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err == nil {
			n++
			fn(path, content)
		}
		return err
	}))
	if n == 0 {
		ts.Fatalf("%s has no file", dir)
	}
}

// grepTree looks for a text, and for the name of this host, in every file under a directory: ! grep-tree TEXT DIR.
func grepTree(ts *testscript.TestScript, neg bool, args []string) {
	if !neg || len(args) != 2 {
		ts.Fatalf("usage: ! grep-tree text dir")
	}
	host, err := os.Hostname()
	ts.Check(err)
	eachFile(ts, args[1], func(path string, content []byte) {
		for _, text := range []string{args[0], host} {
			if strings.Contains(path, text) || bytes.Contains(content, []byte(text)) {
				ts.Fatalf("%s tells %q: %s", path, text, content)
			}
		}
	})
}

// corruptTree changes a number in every file under a directory: corrupt-tree DIR.
func corruptTree(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: corrupt-tree dir")
	}
	eachFile(ts, args[0], func(path string, content []byte) {
		ts.Check(os.WriteFile(path, bytes.Replace(content, []byte(`"threads":`), []byte(`"threads":1`), 1), 0o600))
	})
}

// startEtcd starts an etcd for as long as the script runs, and puts its address into a variable: etcd VARIABLE.
func startEtcd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: etcd variable")
	}
	for range 5 { // a port that was free may be taken by now
		if url := tryEtcd(ts); url != "" {
			ts.Setenv(args[0], url)
			return
		}
	}
	ts.Fatalf("etcd does not start")
}

// tryEtcd starts an etcd and returns its address once it answers; "" if it ends before that.
func tryEtcd(ts *testscript.TestScript) (url string) {
	client, peer := freePort(ts), freePort(ts)
	cmd := exec.Command("etcd", "--data-dir", ts.MkAbs("etcd-data"), "--listen-client-urls", "http://"+client, "--advertise-client-urls", "http://"+client,
		"--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer, "--initial-cluster", "default=http://"+peer)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	f, err := fleet.Open(context.Background(), fleet.Options{URL: "etcd://" + client, Timeout: 5 * time.Second})
	ts.Check(err)
	defer f.Close()
	for range 600 {
		if _, err = f.Status(context.Background()); err == nil {
			ts.Defer(func() { cmd.Process.Kill(); <-ended })
			return "etcd://" + client
		}
		select {
		case <-ended:
			ts.Check(os.RemoveAll(ts.MkAbs("etcd-data")))
			return ""
		case <-time.After(100 * time.Millisecond):
		}
	}
	cmd.Process.Kill()
	ts.Fatalf("etcd does not answer: %v", err)
	return ""
}

func freePort(ts *testscript.TestScript) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	defer l.Close()
	return l.Addr().String()
}

// TestEtcdScript runs the script that needs a real etcd.
func TestEtcdScript(t *testing.T) {
	if _, err := exec.LookPath("etcd"); err != nil {
		if slices.Contains(strings.Split(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), ","), "etcd") {
			t.Fatal(fmt.Errorf("etcd is required: %w", err))
		}
		t.Skipf("NOT TESTED: etcd: %v", err)
	}
	scripts(t, "testdata/script/etcd")
}
