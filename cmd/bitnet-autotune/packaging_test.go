package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// parses reports whether the command line is one that the command understands.
func parses(t *testing.T, args []string) {
	t.Helper()
	root := (&app{out: io.Discard, err: io.Discard}).root()
	cmd, rest, err := root.Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err != nil || cmd == root {
		t.Errorf("%q: %v", args, err)
	}
}

func TestUnitStartsTheDaemon(t *testing.T) {
	const file = "packaging/bitnet-autotune.service"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			settings[name] = value
		}
	}
	args := strings.Fields(settings["ExecStart"])
	if len(args) < 2 || args[0] != "/usr/bin/bitnet-autotune" {
		t.Fatalf("ExecStart=%s", settings["ExecStart"])
	}
	parses(t, args[1:])
	if want := "BITNET_AUTOTUNE_STORE=/var/lib/" + settings["StateDirectory"]; settings["Environment"] != want {
		t.Errorf("Environment=%s, want %s", settings["Environment"], want)
	}
}

func TestUnitIsVerifiedBySystemd(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		if strings.Contains(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), "systemd") {
			t.Fatal("NOT TESTED: the unit: ", err)
		}
		t.Skip("NOT TESTED: the unit: ", err)
	}
	// The program need not be installed for the unit to be right.
	text, err := os.ReadFile("packaging/bitnet-autotune.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "bitnet-autotune.service")
	if err := os.WriteFile(unit, bytes.ReplaceAll(text, []byte("/usr/bin/bitnet-autotune"), []byte("/bin/true")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(verify, "verify", "--man=no", unit).CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// daemonSet is the part of a DaemonSet that has to agree with itself.
type daemonSet struct {
	APIVersion, Kind string
	Spec             struct {
		Selector struct{ MatchLabels map[string]string }
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Containers []struct {
					Args  []string
					Ports []struct {
						Name          string
						ContainerPort int
					}
					LivenessProbe, ReadinessProbe struct {
						HTTPGet struct{ Path, Port string }
					}
					VolumeMounts []struct{ Name, MountPath string }
				}
				Volumes []struct {
					Name     string
					HostPath struct{ Path string }
				}
			}
		}
	}
}

func TestDaemonSetAgreesWithItself(t *testing.T) {
	text, err := os.ReadFile("packaging/daemonset.json")
	if err != nil {
		t.Fatal(err)
	}
	var set daemonSet
	if err := json.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	pod := set.Spec.Template.Spec
	if set.APIVersion != "apps/v1" || set.Kind != "DaemonSet" || len(pod.Containers) != 1 {
		t.Fatalf("%s %s with %d containers", set.APIVersion, set.Kind, len(pod.Containers))
	}
	for key, value := range set.Spec.Selector.MatchLabels {
		if set.Spec.Template.Metadata.Labels[key] != value {
			t.Errorf("label %s of the pods is not %s", key, value)
		}
	}
	daemon := pod.Containers[0]
	parses(t, daemon.Args)
	if live, ready, port := daemon.LivenessProbe.HTTPGet, daemon.ReadinessProbe.HTTPGet, daemon.Ports[0]; live.Path != "/healthz" || ready.Path != "/readyz" ||
		live.Port != port.Name || ready.Port != port.Name || !slices.Contains(daemon.Args, fmt.Sprintf("0.0.0.0:%d", port.ContainerPort)) {
		t.Errorf("probes %+v and %+v of %+v, of a daemon with %q", live, ready, port, daemon.Args)
	}
	var mounted []string
	for _, m := range pod.Containers[0].VolumeMounts {
		for _, v := range pod.Volumes {
			if v.Name == m.Name {
				mounted = append(mounted, m.MountPath)
			}
		}
	}
	image, err := os.ReadFile("packaging/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"/var/lib/bitnet-autotune", "/run/lock"} {
		if !slices.Contains(mounted, want) {
			t.Errorf("%s is not mounted", want)
		}
	}
	if !bytes.Contains(image, []byte("ENV BITNET_AUTOTUNE_STORE=/var/lib/bitnet-autotune\n")) {
		t.Error("the image's store is not the one that is mounted")
	}
}
