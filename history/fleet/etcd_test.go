package fleet

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// server is a real etcd on the loopback interface.
type server struct {
	t      *testing.T
	port   int
	peer   int
	dir    string
	args   []string
	secure bool
	log    lockedBuffer
	cmd    *exec.Cmd
}

// lockedBuffer is what a process writes, while the test may look at it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// startEtcd starts one, or skips the test loudly where none is installed.
func startEtcd(t *testing.T, args ...string) *server {
	t.Helper()
	if _, err := exec.LookPath("etcd"); err != nil {
		unavailable(t, "etcd", err)
	}
	s := &server{t: t, port: freePort(t), peer: freePort(t), dir: t.TempDir(), args: args, secure: slices.Contains(args, "--client-cert-auth")}
	t.Cleanup(s.kill)
	s.start()
	return s
}

// unavailable skips a test, or fails it if BITNET_AUTOTUNE_REQUIRE names what it needs.
func unavailable(t *testing.T, need string, err error) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), ","), need) {
		t.Fatalf("%s is required: %v", need, err)
	}
	t.Skipf("NOT TESTED: %s: %v", need, err)
}

// givenPorts are those that freePort has returned: tests run side by side, and a server listens some time after.
var givenPorts sync.Map

// freePort returns a port on which nothing listens, below those that the kernel gives to connections, which would take it
// before the server does. It returns none twice.
func freePort(t *testing.T) int {
	t.Helper()
	for range 1000 {
		port := 20000 + rand.IntN(12000)
		if _, given := givenPorts.LoadOrStore(port, true); given {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port from 20000 to 31999")
	return 0
}

// start starts the server, also again after a kill, and waits until it answers.
func (s *server) start() {
	s.t.Helper()
	scheme := "http"
	if s.secure {
		scheme = "https"
	}
	client, peer := fmt.Sprintf("%s://127.0.0.1:%d", scheme, s.port), fmt.Sprintf("http://127.0.0.1:%d", s.peer)
	s.cmd = exec.Command("etcd", append([]string{"--data-dir", filepath.Join(s.dir, "data"), "--name", "one",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "one=" + peer, "--log-level", "error"}, s.args...)...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(s.t, s.cmd.Start())
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if s.answers() {
			return
		}
		if time.Since(began) > time.Minute {
			s.t.Fatalf("etcd does not answer:\n%s", s.log.String())
		}
	}
}

// answers asks over plain TCP where a certificate would be wanted.
func (s *server) answers() bool {
	address := fmt.Sprintf("127.0.0.1:%d", s.port)
	if s.secure {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	resp, err := http.Get("http://" + address + "/health")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func (s *server) kill() {
	if s.cmd != nil && s.cmd.ProcessState == nil {
		s.cmd.Process.Kill()
		s.cmd.Wait()
	}
}

func (s *server) url() string {
	if s.secure {
		return fmt.Sprintf("etcds://127.0.0.1:%d", s.port)
	}
	return fmt.Sprintf("etcd://127.0.0.1:%d", s.port)
}
