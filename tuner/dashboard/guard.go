package dashboard

import (
	"bytes"
	"encoding/json"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// policy is what the page may do: nothing but talk to where it came from.
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"

// guard lets through what may be asked for.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, mostBodyBytes)
		switch {
		case !s.named(r.Host):
			fail(w, http.StatusForbidden, "host "+r.Host+" is not a name of this server: want an address, localhost or a name of its certificate")
		case private(r.URL.Path) && embeddedElsewhere(r):
			fail(w, http.StatusForbidden, "it comes from a page of another origin")
		case s.closed && private(r.URL.Path) && !s.token.in(r):
			deny(w)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// embeddedElsewhere reports whether a page of another origin asks, and not a reader who follows a link from there. That page
// could not read the answer, but could have it made, and take all streams.
func embeddedElsewhere(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Dest") != "document"
}

// named reports whether a request asks for this server by a name that nobody else could have given to its address (DNS
// rebinding): the address itself, localhost, what it listens on, or what its certificate says.
func (s *Server) named(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	return net.ParseIP(host) != nil || strings.EqualFold(host, "localhost") || host != "" && strings.EqualFold(host, s.host) ||
		s.tls != nil && s.tls.Certificates[0].Leaf.VerifyHostname(host) == nil
}

// private reports whether a path tells something of this host. The page itself does not, and whoever asks for the health
// of a process has no token to show.
func private(path string) bool { return strings.HasPrefix(path, "/api/") || path == "/metrics" }

// bounded answers at most so many requests at once: what they ask for is made by one of them at a time anyway. The others wait
// for a while, since all pages ask at the same time, when something has changed.
func (s *Server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		patience := time.NewTimer(s.pace.queue)
		defer patience.Stop()
		select {
		case s.requests <- struct{}{}:
			defer func() { <-s.requests }()
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
		case <-patience.C:
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Connection", "close")
			fail(w, http.StatusServiceUnavailable, "too many requests at once")
		}
	})
}

// writable lets through a write that holds the token and that no page of another origin can have sent.
func (s *Server) writable(next http.HandlerFunc) http.HandlerFunc {
	origin := http.NewCrossOriginProtection()
	return func(w http.ResponseWriter, r *http.Request) {
		if err := origin.Check(r); err != nil {
			fail(w, http.StatusForbidden, "it comes from a page of another origin: "+err.Error())
			return
		}
		if !s.token.in(r) {
			deny(w)
			return
		}
		next(w, r)
	}
}

func deny(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="bitnet-autotune"`)
	fail(w, http.StatusUnauthorized, "want the header Authorization: Bearer with the token, which the daemon's log says where to find")
}

// fail sends an error as one line of JSON.
func fail(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Del("Etag")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": strings.Join(strings.Fields(text), " ")})
}

// refusal turns what ServeMux says of paths and methods that it does not know into this server's errors.
type refusal struct{ http.ResponseWriter }

func (w refusal) WriteHeader(status int) {
	if status < http.StatusBadRequest {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	text := "there is no such path"
	if status == http.StatusMethodNotAllowed {
		text = "method not allowed: want " + w.Header().Get("Allow")
	}
	w.Header().Del("Content-Length")
	fail(w.ResponseWriter, status, text)
}

func (refusal) Write(text []byte) (int, error) { return len(text), nil }

// errorLog takes what net/http has to say. Connections that fail, such as in their handshake, are nothing that an operator
// asked about; a handler that panicked is.
func (s *Server) errorLog() *log.Logger { return log.New(debugLog{s.opt.Log}, "", 0) }

type debugLog struct{ zerolog.Logger }

func (d debugLog) Write(line []byte) (int, error) {
	level := zerolog.DebugLevel
	if bytes.Contains(line, []byte("panic")) {
		level = zerolog.ErrorLevel
	}
	d.WithLevel(level).Msg(string(bytes.TrimSpace(line)))
	return len(line), nil
}
