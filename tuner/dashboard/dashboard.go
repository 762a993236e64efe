package dashboard

import (
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/advisor"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/daemon"
)

// DefaultListen is where the page is by default: on this machine only.
const DefaultListen = "127.0.0.1:9470"

// tokenName is the file of a store in which the token lies.
const tokenName = "dashboard.token"

// Options are what a Server shows and where. Daemon, Tuner and Store are needed, and those that the daemon has.
type Options struct {
	Daemon *daemon.Daemon
	Tuner  *tuner.Tuner
	Store  string
	Build  string // version of the program

	Listen string // HOST:PORT; if "", DefaultListen
	// TLSCert and TLSKey are PEM files; both or none.
	TLSCert, TLSKey string
	// TokenFile holds the token; one that is absent is made. If "", dashboard.token in the store. On an address that others
	// can reach, a file that is named here makes reading demand the token too.
	TokenFile string

	// Machine describes the host. If nil, this one.
	Machine func(context.Context) (gpu.Machine, error)
	// Advise says what is wrong with the way a model is run here, from what is known. If nil, nobody does.
	Advise func(ctx context.Context, model string) (advisor.Report, error)
	Log    zerolog.Logger
	Now    func() time.Time // if nil, time.Now
}

// Server shows a daemon.
type Server struct {
	opt      Options
	host     string // of Options.Listen
	closed   bool   // reading demands the token
	token    token
	tls      *tls.Config // nil without TLS
	listener net.Listener
	reader   *history.Reader
	events   *hub
	requests chan struct{} // those that are answered at once
	pace     pace
	life     context.Context // of what is made to be shown; stop ends it
	stop     func()

	mu       sync.Mutex
	answers  map[string]*kept[answer]
	archives map[string]*kept[*archive]
}

// New returns a server that holds no port and no file yet. An error is an option that cannot be.
func New(opt Options) (*Server, error) {
	if opt.Daemon == nil || opt.Tuner == nil || opt.Store == "" {
		return nil, errors.New("dashboard: no daemon, tuner or store")
	}
	if opt.Listen == "" {
		opt.Listen = DefaultListen
	}
	if opt.Machine == nil {
		opt.Machine = func(ctx context.Context) (gpu.Machine, error) {
			return gpu.LocalMachine(ctx, gpu.Options{Timeout: lookTime})
		}
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	host, err := CheckListen(opt.Listen, opt.TLSCert, opt.TLSKey, opt.TokenFile)
	if err != nil {
		return nil, err
	}
	s := &Server{
		opt: opt, host: host, closed: !loopback(host) && opt.TokenFile != "", reader: history.NewReader(opt.Store),
		requests: make(chan struct{}, mostRequests), pace: usualPace, answers: map[string]*kept[answer]{}, archives: map[string]*kept[*archive]{},
	}
	s.events = newHub(opt.Now())
	s.life, s.stop = context.WithCancel(context.Background())
	if opt.TokenFile == "" {
		s.opt.TokenFile = filepath.Join(opt.Store, tokenName)
	}
	return s, nil
}

// CheckListen reports what is wrong with an address and what guards it, and returns its host.
func CheckListen(listen, cert, key, tokenFile string) (host string, err error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "" {
		return "", fmt.Errorf("listen %q: want HOST:PORT such as %s", listen, DefaultListen)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return "", fmt.Errorf("listen %q: port %q: want a number from 0 to 65535", listen, port)
	}
	switch {
	case (cert == "") != (key == ""):
		return "", errors.New("tls-cert and tls-key: want both or none")
	case !loopback(host) && cert == "" && tokenFile == "":
		return "", fmt.Errorf("listen %s can be reached from other machines: want tls-cert and tls-key, or token-file, which then guards all that is shown", listen)
	}
	return host, nil
}

// loopback reports whether an address can only be reached from this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Listen takes the port, and reads the token and the certificate.
func (s *Server) Listen() (err error) {
	if s.opt.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(s.opt.TLSCert, s.opt.TLSKey)
		if err != nil {
			return fmt.Errorf("tls-cert %s, tls-key %s: %w", s.opt.TLSCert, s.opt.TLSKey, err)
		}
		s.tls = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	}
	if s.listener, err = net.Listen("tcp", s.opt.Listen); err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return fmt.Errorf("listen %s: %w: name another address, or off", s.opt.Listen, err)
	}
	if s.token, err = readToken(s.opt.TokenFile); err != nil {
		s.listener.Close()
		return err
	}
	return nil
}

// URL is where the page is. Listen comes first.
func (s *Server) URL() string {
	scheme := "http"
	if s.tls != nil {
		scheme = "https"
	}
	return scheme + "://" + s.listener.Addr().String() + "/"
}

// Bounds of a connection. What is asked for is small, and so is what is sent.
const (
	mostConnections = 256
	mostRequests    = 32 // at once, streams not counted
	mostWaiting     = 64 // of one connection, by HTTP/2: more than a page asks for at once
	mostHeaderBytes = 16 << 10
	mostBodyBytes   = 4 << 10
)

// pace is how long things may take, and how often they are done.
type pace struct {
	header, request, answer, idle time.Duration // of a connection
	queue                         time.Duration // until a request is begun, where there are many
	last                          time.Duration // that requests get when the server ends
	look                          time.Duration // at the daemon, for events
	beat                          time.Duration // of a stream in which nothing happens
}

var usualPace = pace{
	header: 5 * time.Second, request: 10 * time.Second, answer: 30 * time.Second, idle: time.Minute, queue: 5 * time.Second, last: 2 * time.Second,
	look: time.Second, beat: 15 * time.Second,
}

// Serve answers until ctx ends, which is no error. Listen comes first.
func (s *Server) Serve(ctx context.Context) error {
	defer s.stop()
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: s.pace.header, ReadTimeout: s.pace.request, WriteTimeout: s.pace.answer, IdleTimeout: s.pace.idle,
		MaxHeaderBytes: mostHeaderBytes, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: mostWaiting}, ErrorLog: s.errorLog(),
	}
	listener := limit(s.listener, mostConnections)
	if s.tls != nil {
		listener = tls.NewListener(listener, s.tls)
	}
	s.opt.Log.Info().Str("token", s.opt.TokenFile).Msg("the page is at " + s.URL() + "; changes there demand the token in the file")
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { s.events.watch(ctx, s) })
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	s.events.close()
	late, stop := context.WithTimeout(context.Background(), s.pace.last)
	defer stop()
	if server.Shutdown(late) != nil {
		s.stop()
		server.Close()
	}
	cancel()
	watching.Wait()
	return err
}

//go:embed page
var embedded embed.FS

// pages are the files of the page.
func pages() fs.FS {
	sub, err := fs.Sub(embedded, "page")
	if err != nil {
		panic("dashboard: the page is embedded")
	}
	return sub
}

// servePage sends a file of the page. What is none is not found, directories included.
func servePage(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	if name == "" {
		name = "index.html"
	}
	if info, err := fs.Stat(pages(), name); err != nil || info.IsDir() || strings.Contains(name, "/") {
		fail(w, http.StatusNotFound, "there is no "+r.URL.Path)
		return
	}
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeFileFS(w, r, pages(), name)
}
