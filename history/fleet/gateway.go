package fleet

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
)

// gateway speaks to the JSON gateway that every etcd since 3.4 has: POST, with bytes in base64 and integers of 64 bits
// as strings. It asks the endpoint that answered last, and the others when that does not.
type gateway struct {
	endpoints      []string // http://HOST:PORT
	client         *http.Client
	timeout        time.Duration
	user, password string
	preferred      atomic.Int64 // index of the endpoint that answered last
	mu             sync.Mutex
	token          string // of the user, "" until etcd asks for one
}

// maxAnswerBytes bounds an answer: more than maxListed keys, or the largest value that etcd takes, in base64.
const maxAnswerBytes = 4 << 20

// header is what every answer of etcd has. Without one it is somebody else's.
type header struct {
	Cluster uint64 `json:"cluster_id,string"`
}

// answer is a document with a header.
type answer interface{ head() header }

type headed struct {
	Header header `json:"header"`
}

func (h headed) head() header { return h.Header }

func newGateway(secure bool, hosts string, opt Options) (*gateway, error) {
	g := &gateway{timeout: opt.Timeout, user: opt.User, password: opt.Password}
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	for _, host := range strings.Split(hosts, ",") {
		host, err := withPort(host)
		if err != nil {
			return nil, err
		}
		g.endpoints = append(g.endpoints, scheme+host)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, DisableCompression: true}
	if secure {
		config, err := tlsConfig(opt)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = config
	} else if opt.CA != "" || opt.Cert != "" || opt.Key != "" {
		return nil, errors.New("a CA, certificate or key is of use only with etcds://")
	}
	g.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a token goes nowhere but to the endpoints
	}}
	return g, nil
}

// withPort adds etcd's port to a host that has none.
func withPort(host string) (string, error) {
	if strings.Contains(host, "@") {
		return "", errors.New("a user in the URL: want it in User and Password, so that it shows in no list of processes")
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port, err = net.SplitHostPort(host + ":2379")
	}
	if err != nil || name == "" || port == "" || strings.ContainsAny(name, " /?#") {
		return "", fmt.Errorf("endpoint %q: want HOST:PORT", host)
	}
	return net.JoinHostPort(name, port), nil
}

func tlsConfig(opt Options) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if opt.CA != "" {
		pem, err := os.ReadFile(opt.CA)
		if err != nil {
			return nil, fmt.Errorf("CA: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("CA %s: no certificate in it: want PEM", opt.CA)
		}
	}
	if opt.Cert != "" || opt.Key != "" {
		pair, err := tls.LoadX509KeyPair(opt.Cert, opt.Key)
		if err != nil {
			return nil, fmt.Errorf("certificate %q with key %q: %w", opt.Cert, opt.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// call sends a request and reads its answer. A request may reach etcd twice, so what it asks for must bear that.
func (g *gateway) call(ctx context.Context, route string, request any, a answer) error {
	err := g.try(ctx, route, request, a)
	var refused *refusal
	if errors.As(err, &refused) && refused.token() && g.user != "" && route != routeAuthenticate {
		if err = g.authenticate(ctx); err == nil {
			err = g.try(ctx, route, request, a)
		}
	}
	if errors.As(err, &refused) {
		return fail(refused.kind(), "etcd %s: %s", refused.endpoint, refused.text)
	}
	return err
}

const routeAuthenticate = "/v3/auth/authenticate"

// authenticate gets a token for the user.
func (g *gateway) authenticate(ctx context.Context) error {
	var a struct {
		headed
		Token string `json:"token"`
	}
	if err := g.call(ctx, routeAuthenticate, map[string]string{"name": g.user, "password": g.password}, &a); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.token = a.Token
	return nil
}

// try asks one endpoint after the other until one answers.
func (g *gateway) try(ctx context.Context, route string, request any, a answer) error {
	body, err := history.Marshal(request)
	if err != nil {
		return err
	}
	first := g.preferred.Load()
	for i := range g.endpoints {
		n := (first + int64(i)) % int64(len(g.endpoints))
		err = g.post(ctx, g.endpoints[n], route, body, a)
		if err == nil || settled(err) {
			g.preferred.Store(n)
			return err
		}
		if ctx.Err() != nil {
			break
		}
	}
	if len(g.endpoints) > 1 {
		var f *failure
		if errors.As(err, &f) {
			f.text += fmt.Sprintf(" (tried %d endpoints)", len(g.endpoints))
		}
	}
	return err
}

// settled reports whether another endpoint would say the same.
func settled(err error) bool {
	var refused *refusal
	return errors.As(err, &refused) && refused.kind() != ErrUnavailable
}

// post asks one endpoint once.
func (g *gateway) post(ctx context.Context, endpoint, route string, body []byte, a answer) error {
	limited, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(limited, http.MethodPost, endpoint+route, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	g.mu.Lock()
	if g.token != "" && route != routeAuthenticate {
		req.Header.Set("Authorization", g.token)
	}
	g.mu.Unlock()
	resp, err := g.client.Do(req)
	if err != nil {
		return g.silent(ctx, limited, endpoint, err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	if err != nil {
		return g.silent(ctx, limited, endpoint, err)
	}
	return read(endpoint, resp.StatusCode, content, a)
}

// silent says why there was no answer. An error of net/http repeats the URL; what it wraps does not.
func (g *gateway) silent(ctx, limited context.Context, endpoint string, err error) error {
	text := err.Error()
	if inner := errors.Unwrap(err); inner != nil {
		text = inner.Error()
	}
	f := &failure{kinds: []error{ErrUnavailable}}
	switch {
	case ctx.Err() != nil:
		f.kinds = append(f.kinds, ctx.Err())
		text = "no answer in the time that was left"
		if errors.Is(ctx.Err(), context.Canceled) {
			text = "interrupted"
		}
	case limited.Err() != nil:
		text = "no answer within " + g.timeout.String()
	}
	f.text = "etcd " + endpoint + ": " + text
	return f
}

// read turns an answer into what it says.
func read(endpoint string, status int, content []byte, a answer) error {
	nonsense := func(format string, args ...any) error {
		return fail(ErrNonsense, "etcd %s: %s", endpoint, fmt.Sprintf(format, args...))
	}
	if len(content) > maxAnswerBytes {
		return nonsense("an answer of more than %d bytes", maxAnswerBytes)
	}
	if status != http.StatusOK {
		var says struct{ Error, Message string }
		if json.Unmarshal(content, &says) == nil && cmp.Or(says.Message, says.Error) != "" {
			return &refusal{endpoint, oneLine(cmp.Or(says.Message, says.Error))}
		}
		if status >= 500 {
			return fail(ErrUnavailable, "etcd %s: HTTP %d", endpoint, status)
		}
		return nonsense("HTTP %d and %.40q: is it etcd 3.4 or later?", status, content)
	}
	reflect.ValueOf(a).Elem().SetZero() // of what another endpoint said, which was no answer
	if err := json.Unmarshal(content, a); err != nil {
		return nonsense("%.40q is not its answer: %v", content, err)
	}
	if a.head().Cluster == 0 {
		return nonsense("%.40q is not its answer: it has no header", content)
	}
	return nil
}

// oneLine keeps what somebody else wrote short and harmless.
func oneLine(text string) string {
	quoted := fmt.Sprintf("%.250q", text)
	return quoted[1 : len(quoted)-1]
}

// refusal is an error that etcd itself reports.
type refusal struct{ endpoint, text string }

func (r *refusal) Error() string { return r.text }

// Texts of etcd 3.4 to 3.6; the codes beside them say less.
func (r *refusal) has(texts ...string) bool {
	for _, text := range texts {
		if strings.Contains(r.text, text) {
			return true
		}
	}
	return false
}

// token reports whether a token, or another one, is wanted.
func (r *refusal) token() bool {
	return r.has("user name is empty", "invalid auth token", "revision of auth store is old")
}

// gone reports whether a lease is asked for that has fallen.
func (r *refusal) gone() bool { return r.has("requested lease not found") }

// kind is which of the failures a refusal is.
func (r *refusal) kind() error {
	switch {
	case r.has("database space exceeded", "request is too large", "no space"):
		return ErrFull
	case r.token() || r.has("authentication", "permission denied", "invalid user ID or password"):
		return ErrDenied
	case r.gone():
		return errLost
	}
	return ErrUnavailable
}
