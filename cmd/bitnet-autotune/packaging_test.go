package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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
	settings, environment := map[string]string{}, map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case !ok || strings.HasPrefix(name, "#"):
		case name == "Environment":
			variable, value, _ := strings.Cut(value, "=")
			environment[variable] = value
		default:
			settings[name] = value
		}
	}
	args := strings.Fields(settings["ExecStart"])
	if len(args) < 2 || args[0] != "/usr/bin/bitnet-autotune" {
		t.Fatalf("ExecStart=%s", settings["ExecStart"])
	}
	parses(t, args[1:])
	if got, want := environment["BITNET_AUTOTUNE_STORE"], "/var/lib/"+settings["StateDirectory"]; got != want {
		t.Errorf("the store is %s, want %s", got, want)
	}
	for file, want := range map[string][]string{
		"packaging/bitnet-autotune.sysusers": {"u " + settings["User"] + " "},
		"packaging/bitnet-autotune.tmpfiles": {
			"d " + environment["BITNET_AUTOTUNE_STORE"] + " " + settings["StateDirectoryMode"] + " " + settings["User"] + " ",
			"f " + environment["BITNET_AUTOTUNE_HOST_LOCK"] + " 0644 " + settings["User"] + " ",
		},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range want {
			if !strings.Contains("\n"+string(text), "\n"+line) {
				t.Errorf("%s: no line %q…", file, line)
			}
		}
	}
}

// What systemd itself makes of the user, the store and the lock, in a root of their own.
func TestUserAndStoreAreMadeBySystemd(t *testing.T) {
	sysusers, bad1 := exec.LookPath("systemd-sysusers")
	tmpfiles, bad2 := exec.LookPath("systemd-tmpfiles")
	if bad1 != nil || bad2 != nil || os.Getuid() != 0 {
		if strings.Contains(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), "systemd") {
			t.Fatal("NOT TESTED: user and store: ", bad1, bad2, ", or not root")
		}
		t.Skip("NOT TESTED: user and store: ", bad1, bad2, ", or not root")
	}
	root := t.TempDir()
	for _, dir := range []string{"etc", "var/lib", "run/lock"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{sysusers, "packaging/bitnet-autotune.sysusers"}, {tmpfiles, "--create", "packaging/bitnet-autotune.tmpfiles"}} {
		file, err := filepath.Abs(args[len(args)-1])
		if err != nil {
			t.Fatal(err)
		}
		args = append(slices.Insert(args[:len(args)-1], 1, "--root="+root), file)
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	users, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if err != nil || !bytes.Contains(users, []byte("bitnet-autotune:")) {
		t.Errorf("users %s, %v", users, err)
	}
	for path, mode := range map[string]os.FileMode{"var/lib/bitnet-autotune": os.ModeDir | 0o750, "run/lock/bitnet-autotune.lock": 0o644} {
		info, err := os.Stat(filepath.Join(root, path))
		if err != nil {
			t.Error(err)
			continue
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; info.Mode() != mode || owner == 0 {
			t.Errorf("%s: %v of user %d, want %v and not root's", path, info.Mode(), owner, mode)
		}
	}
}

// As far as it can be told without a builder: what is copied is there, what is built and where is what is run, and what it runs is
// a command line that the command understands.
func TestImageIsMadeOfWhatIsThere(t *testing.T) {
	text, err := os.ReadFile("packaging/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	root, made := "../..", ""
	lines := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		lines[f[0]] = append(lines[f[0]], strings.TrimSpace(strings.TrimPrefix(line, f[0])))
		if f[0] == "RUN" && slices.Contains(f, "build") {
			made = f[slices.Index(f, "-o")+1]
			if _, err := os.Stat(filepath.Join(root, f[len(f)-1], "main.go")); err != nil {
				t.Errorf("RUN %q: %v", f, err)
			}
		}
		if f[0] != "COPY" || strings.HasPrefix(f[1], "--") {
			continue
		}
		for _, source := range f[1 : len(f)-1] {
			if _, err := os.Stat(filepath.Join(root, source)); err != nil {
				t.Errorf("COPY %s: %v", source, err)
			}
		}
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(string(mod), "\ngo ")
	version, _, _ = strings.Cut(version, "\n")
	if want := strings.Join(strings.Split(version, ".")[:2], "."); len(lines["FROM"]) != 2 || !strings.Contains(lines["FROM"][0], "golang:"+want+" ") || lines["FROM"][1] != "scratch" {
		t.Errorf("FROM %q, want golang:%s and scratch", lines["FROM"], want)
	}
	if want := "--from=build " + made + " /usr/bin/bitnet-autotune"; made == "" || !slices.Contains(lines["COPY"], want) {
		t.Errorf("COPY %q, want %s", lines["COPY"], want)
	}
	var entry, args []string
	if err := errors.Join(json.Unmarshal([]byte(lines["ENTRYPOINT"][0]), &entry), json.Unmarshal([]byte(lines["CMD"][0]), &args)); err != nil {
		t.Fatal(err)
	}
	if len(entry) != 1 || entry[0] != "/usr/bin/bitnet-autotune" || lines["VOLUME"][0] != "/var/lib/bitnet-autotune" {
		t.Errorf("ENTRYPOINT %q, VOLUME %q", entry, lines["VOLUME"])
	}
	parses(t, args)
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
