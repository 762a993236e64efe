package dashboard

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

func TestWritesDemandTokenAndOrigin(t *testing.T) {
	v := open(t, t.TempDir(), nil)
	plan, err := v.tuner.Plan(t.Context(), anyModel)
	if err != nil {
		t.Fatal(err)
	}
	right := map[string]string{"Authorization": "Bearer " + v.token, "Content-Type": "application/json", "Origin": v.url, "Sec-Fetch-Site": "same-origin"}
	for name, test := range map[string]struct {
		method, path, body string
		change             map[string]string // "" = absent
		want               int
	}{
		"by the page":                   {want: http.StatusOK},
		"by a program":                  {change: map[string]string{"Origin": "", "Sec-Fetch-Site": ""}, want: http.StatusOK},
		"with who and why":              {body: `{"by": "ada", "why": "a test"}`, want: http.StatusOK},
		"with a charset":                {change: map[string]string{"Content-Type": "application/json; charset=utf-8"}, want: http.StatusOK},
		"without a token":               {change: map[string]string{"Authorization": ""}, want: http.StatusUnauthorized},
		"with an empty token":           {change: map[string]string{"Authorization": "Bearer "}, want: http.StatusUnauthorized},
		"with another token":            {change: map[string]string{"Authorization": "Bearer " + strings.Repeat("x", 43)}, want: http.StatusUnauthorized},
		"with half of the token":        {change: map[string]string{"Authorization": "Bearer " + v.token[:20]}, want: http.StatusUnauthorized},
		"with a longer token":           {change: map[string]string{"Authorization": "Bearer " + v.token + "x"}, want: http.StatusUnauthorized},
		"with the token as a password":  {change: map[string]string{"Authorization": "Basic " + v.token}, want: http.StatusUnauthorized},
		"from another origin":           {change: map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": ""}, want: http.StatusForbidden},
		"from another site":             {change: map[string]string{"Sec-Fetch-Site": "cross-site"}, want: http.StatusForbidden},
		"from another port":             {change: map[string]string{"Sec-Fetch-Site": "same-site"}, want: http.StatusForbidden},
		"from a sandboxed frame":        {change: map[string]string{"Origin": "null", "Sec-Fetch-Site": ""}, want: http.StatusForbidden},
		"for another host":              {change: map[string]string{"Host": "rebound.example"}, want: http.StatusForbidden},
		"as a form":                     {change: map[string]string{"Content-Type": "text/plain"}, want: http.StatusUnsupportedMediaType},
		"without a content type":        {change: map[string]string{"Content-Type": ""}, want: http.StatusUnsupportedMediaType},
		"with an empty body":            {body: " ", want: http.StatusBadRequest},
		"with a field that is unknown":  {body: `{"user": "ada"}`, want: http.StatusBadRequest},
		"with two documents":            {body: `{} {}`, want: http.StatusBadRequest},
		"with a list":                   {body: `[]`, want: http.StatusBadRequest},
		"with a line break in the name": {body: `{"by": "ada\nERR"}`, want: http.StatusBadRequest},
		"with a long reason":            {body: `{"why": "` + strings.Repeat("x", mostLetters+1) + `"}`, want: http.StatusBadRequest},
		"with a reason in Japanese":     {body: `{"why": "` + strings.Repeat("遅", mostLetters) + `"}`, want: http.StatusOK},
		"of what answers":               {body: `{"config": "` + plan.Hash + `"}`, want: http.StatusOK},
		"of what answers no more":       {body: `{"config": "0123456789abcdef"}`, want: http.StatusConflict},
		"with a huge body":              {body: `{"why": "` + strings.Repeat("x", mostBodyBytes) + `"}`, want: http.StatusRequestEntityTooLarge},
		"by GET":                        {method: "GET", want: http.StatusMethodNotAllowed},
		"by DELETE":                     {method: "DELETE", want: http.StatusMethodNotAllowed},
		"of a model nobody has":         {path: "/api/v1/models/other/pin", want: http.StatusNotFound},
		"of something else":             {path: modelPath + "/delete", want: http.StatusNotFound},
		"not possible":                  {path: modelPath + "/rollback", want: http.StatusConflict}, // nothing was learned
	} {
		t.Run(name, func(t *testing.T) {
			var headers []string
			for key, value := range right {
				if changed, ok := test.change[key]; ok {
					value = changed
				}
				if value != "" {
					headers = append(headers, key, value)
				}
			}
			if host := test.change["Host"]; host != "" {
				headers = append(headers, "Host", host)
			}
			before, err := v.tuner.Plan(t.Context(), anyModel)
			if err != nil {
				t.Fatal(err)
			}
			status, header, body := v.ask(either(test.method, "POST"), either(test.path, modelPath+"/pin"), either(test.body, "{}"), headers...)
			var answer struct {
				Plan  *tuner.Plan
				Error string
			}
			if err := json.Unmarshal(body, &answer); err != nil || header.Get("Content-Type") != "application/json" {
				t.Fatalf("%d: %v\n%s", status, err, body)
			}
			if status != test.want || (status == http.StatusOK) != (answer.Error == "") || strings.Contains(answer.Error, "\n") {
				t.Errorf("%d %q, want %d", status, answer.Error, test.want)
			}
			after, err := v.tuner.Plan(t.Context(), anyModel)
			if err != nil {
				t.Fatal(err)
			}
			if status == http.StatusOK {
				if answer.Plan.Source != tuner.Pinned || after.Source != tuner.Pinned {
					t.Errorf("%+v and then %s", answer.Plan, after.Source)
				}
				if status, answer := v.order("unpin", "{}"); status != http.StatusOK {
					t.Fatalf("%d: %s", status, answer)
				}
			} else if after.Source != before.Source {
				t.Errorf("it was %s and is %s", before.Source, after.Source)
			}
		})
	}
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func TestNamesOfTheServer(t *testing.T) {
	v := open(t, t.TempDir(), nil)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(v.url, "http://"))
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:" + port: 200, "127.0.0.1:" + port: 200, "[::1]:" + port: 200, "192.0.2.7": 200,
		"evil.example": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example:" + port: 403, "localhost.": 403,
	} {
		for _, path := range []string{"/", "/api/v1/state", "/metrics", "/readyz"} {
			if status, _, body := v.ask("GET", path, "", "Host", host); status != want {
				t.Errorf("%s of %s: %d, want %d: %s", path, host, status, want, body)
			}
		}
	}
}

func TestEveryAnswerForbidsWhatThePageDoesNotNeed(t *testing.T) {
	v := open(t, t.TempDir(), nil)
	for _, path := range []string{"/", "/api/v1/state", "/api/v1/nothing", "/metrics", "/healthz"} {
		_, h, _ := v.ask("GET", path, "")
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: another origin may read it", path)
		}
	}
}

func TestAnAddressThatOthersReachIsGuarded(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct {
		listen, cert, key, token string
		want                     string // in the error; "" = none
	}{
		"the default":                 {"127.0.0.1:9470", "", "", "", ""},
		"IPv6":                        {"[::1]:9470", "", "", "", ""},
		"localhost":                   {"localhost:9470", "", "", "", ""},
		"all addresses":               {":9470", "", "", "", "can be reached from other machines"},
		"0.0.0.0":                     {"0.0.0.0:9470", "", "", "", "can be reached from other machines"},
		"a name":                      {"node1.example:9470", "", "", "", "can be reached from other machines"},
		"with a token":                {"0.0.0.0:9470", "", "", "token", ""},
		"with TLS":                    {"0.0.0.0:9470", "cert", "key", "", ""},
		"with half of TLS":            {"0.0.0.0:9470", "cert", "", "", "want both or none"},
		"half of TLS on the loopback": {"127.0.0.1:9470", "", "key", "", "want both or none"},
		"no port":                     {"127.0.0.1", "", "", "", "want HOST:PORT"},
		"an empty port":               {"127.0.0.1:", "", "", "", "want HOST:PORT"},
		"a large port":                {"127.0.0.1:70000", "", "", "", "want a number"},
		"nonsense":                    {"what", "", "", "", "want HOST:PORT"},
	} {
		if _, err := CheckListen(test.listen, test.cert, test.key, test.token); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte("a-token-that-an-operator-chose\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v := open(t, dir, func(o *Options) { o.Listen, o.TokenFile = "0.0.0.0:0", file })
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(v.url, "http://"))
	v.url = "http://127.0.0.1:" + port
	for path, closed := range map[string]bool{
		"/": false, "/healthz": false, "/readyz": false,
		"/metrics": true, "/api/v1/state": true, "/api/v1/host": true, "/api/v1/events": true, modelPath + "/plan": true, "/api/v1/nothing": true,
	} {
		status, _, body := v.ask("HEAD", path, "")
		if (status == http.StatusUnauthorized) != closed {
			t.Errorf("%s without a token: %d: %s", path, status, body)
		}
		if status, _, _ := v.ask("HEAD", path, "", "Authorization", "Bearer "+v.token); status == http.StatusUnauthorized {
			t.Errorf("%s with the token: %d", path, status)
		}
	}
}

// certify writes a certificate for a name, and returns who trusts it.
func certify(t *testing.T, dir, name string) (cert, key string, trust *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name, "*.nodes.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trust = x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	trust.AddCert(parsed)
	return cert, key, trust
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key, trust := certify(t, dir, "node1.example")
	v := open(t, dir, func(o *Options) { o.Listen, o.TLSCert, o.TLSKey = "0.0.0.0:0", cert, key })
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(v.url, "https://"))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust}, ForceAttemptHTTP2: true}
	client := &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	for host, want := range map[string]int{"127.0.0.1:" + port: 200, "node1.example": 200, "a.nodes.example:" + port: 200, "nodes.example": 403, "evil.example": 403} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "https://127.0.0.1:"+port+"/api/v1/state", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		reply, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		if reply.StatusCode != want || reply.ProtoMajor != 2 {
			t.Errorf("%s: %d by %s, want %d", host, reply.StatusCode, reply.Proto, want)
		}
	}
	if _, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{RootCAs: trust, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
		t.Error("TLS 1.1 is still spoken")
	}
	_, err := New(Options{Daemon: v.daemon, Tuner: v.tuner, Store: dir, TLSCert: cert, TLSKey: cert})
	if err != nil {
		t.Fatal(err)
	}
	broken, _ := New(Options{Daemon: v.daemon, Tuner: v.tuner, Store: dir, Listen: "127.0.0.1:0", TLSCert: cert, TLSKey: cert})
	if err := broken.Listen(); err == nil || !strings.Contains(err.Error(), "tls-cert "+cert) {
		t.Errorf("a certificate as the key: %v", err)
	}
}

func TestToken(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	first, err := readToken(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want it for its owner alone", info.Mode(), err)
	}
	if again, err := readToken(path); again != first || err != nil {
		t.Errorf("it changes from one start to the next: %v", err)
	}
	if other, err := readToken(filepath.Join(dir, "other")); other == first || err != nil {
		t.Errorf("two tokens are the same: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"short": "secret", "empty": "", "two words": "a secret of several words", "long": strings.Repeat("x", mostToken+1), "binary": strings.Repeat("\x00", 40)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readToken(path); err == nil || !strings.Contains(err.Error(), "want one word of 16 to") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for path, want := range map[string]string{dir: "it is no file", pipe: "it is no file", filepath.Join(dir, "none", "token"): "it cannot be made"} {
		if _, err := readToken(path); err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), path) > 1 {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestPortThatIsTaken(t *testing.T) {
	v := open(t, t.TempDir(), nil)
	second, err := New(Options{Daemon: v.daemon, Tuner: v.tuner, Store: v.store, Listen: strings.TrimPrefix(v.url, "http://")})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Listen(); err == nil || !strings.Contains(err.Error(), "address already in use: name another address, or off") {
		t.Error(err)
	}
}

// raw sends bytes and returns the status of the answer, 0 where the connection was closed without one.
func raw(t *testing.T, v *site, text string) (status int, body string) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(v.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, text) // it may be cut off
	reply, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, ""
	}
	defer reply.Body.Close()
	answer, _ := io.ReadAll(reply.Body)
	return reply.StatusCode, string(answer)
}

func TestHostileRequests(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("do not show"), 0o600); err != nil {
		t.Fatal(err)
	}
	v := open(t, t.TempDir(), nil)
	const end = " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	for request, want := range map[string][]int{
		"GET /../../../../../.." + secret + end:        {307, 404},
		"GET /%2e%2e%2f%2e%2e%2f" + secret + end:       {307, 404},
		"GET /..%5c..%5csecret" + end:                  {404},
		"GET /page/../main_test.go" + end:              {307, 404},
		"GET //evil.example/" + end:                    {307, 404},
		"GET /index.html/" + end:                       {404},
		"GET /%00" + end:                               {404},
		"GET /api/v1/models/%2e%2e/plan" + end:         {307, 404},
		"GET /api/v1/models//plan" + end:               {307, 404},
		"GET /api/v1/models/..%2F..%2F/plan" + end:     {404},
		"TRACE /" + end:                                {405},
		"CONNECT /" + end:                              {404, 405, 400},
		"FOO /api/v1/state" + end:                      {405},
		"PUT /api/v1/state" + end:                      {405},
		"nonsense\r\n\r\n":                             {400},
		"GET / HTTP/1.1\r\n\r\n":                       {400}, // without a host
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n": {400},
		"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 1<<20): {431, 0},
		"GET /" + strings.Repeat("x", 1<<20) + end:                              {431, 414, 0},
		"GET /" + strings.Repeat("x", 8<<10) + end:                              {404},
	} {
		status, body := raw(t, v, request)
		if !slices.Contains(want, status) || strings.Contains(body, "do not show") {
			t.Errorf("%.60q: %d, want one of %v: %s", request, status, want, body)
		}
	}
	if status, _, _ := v.ask("GET", "/healthz", ""); status != http.StatusOK {
		t.Errorf("afterwards: %d", status)
	}
}

// Who sends slowly is cut off, and keeps nobody else waiting.
func TestSlowRequests(t *testing.T) {
	v := openTweaked(t, t.TempDir(), []string{anyModel}, nil, func(s *Server) {
		s.pace.header, s.pace.request, s.pace.idle = 300*time.Millisecond, 400*time.Millisecond, 100*time.Millisecond
	})
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: localhost\r\n", // and no more
		"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
		fmt.Sprintf("POST %s/pin HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{", modelPath, v.token),
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(v.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c) // until the server closes it
		c.Close()
		if err != nil || bytes.HasPrefix(answer, []byte("HTTP/1.1 200")) != strings.HasPrefix(text, "GET /healthz") {
			t.Errorf("%.30q: %v\n%s", text, err, answer)
		}
	}
}

// When something has changed all pages ask at once, which is no reason to refuse any.
func TestManyRequestsWaitForEachOther(t *testing.T) {
	v := openTweaked(t, t.TempDir(), []string{anyModel}, nil, func(s *Server) { s.pace.queue = time.Minute })
	for range mostRequests {
		v.server.requests <- struct{}{}
	}
	answered := make(chan int)
	go func() {
		reply, err := http.Get(v.url + "/api/v1/models")
		if err != nil {
			answered <- 0
			return
		}
		reply.Body.Close()
		answered <- reply.StatusCode
	}()
	select {
	case status := <-answered:
		t.Fatalf("%d while others are answered", status)
	case <-time.After(50 * time.Millisecond):
	}
	<-v.server.requests
	if status := <-answered; status != http.StatusOK {
		t.Errorf("%d after one was answered", status)
	}
	for range mostRequests - 1 {
		<-v.server.requests
	}
}

func TestWhoWaitsTooLongIsToldSo(t *testing.T) {
	v := openTweaked(t, t.TempDir(), []string{anyModel}, nil, func(s *Server) { s.pace.queue = time.Millisecond })
	for range mostRequests {
		v.server.requests <- struct{}{}
	}
	if status, header, body := v.ask("GET", "/api/v1/models", ""); status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("%d %s", status, body)
	}
	for range mostRequests {
		<-v.server.requests
	}
}

// A page of anybody can have a browser ask here. It learns nothing, and costs nothing either.
func TestPagesOfOthersHaveNothingMade(t *testing.T) {
	v := open(t, t.TempDir(), nil)
	for _, test := range []struct {
		site, into string
		want       int
	}{
		{"cross-site", "image", 403}, {"cross-site", "empty", 403}, {"cross-site", "iframe", 403}, {"same-site", "empty", 403},
		{"cross-site", "document", 200}, {"same-origin", "empty", 200}, {"none", "document", 200}, {"", "", 200},
	} {
		for _, path := range []string{"/api/v1/state", "/metrics", modelPath + "/advice"} {
			if status, _, body := v.ask("GET", path, "", "Sec-Fetch-Site", test.site, "Sec-Fetch-Dest", test.into); status != test.want {
				t.Errorf("%s by %q %q: %d, want %d: %s", path, test.site, test.into, status, test.want, body)
			}
		}
		if status, _, _ := v.ask("HEAD", "/api/v1/events", "", "Sec-Fetch-Site", test.site, "Sec-Fetch-Dest", test.into); status != test.want {
			t.Errorf("events by %q %q: %d, want %d", test.site, test.into, status, test.want)
		}
	}
}
