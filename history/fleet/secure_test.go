package fleet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// authority makes certificates in a directory.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	last int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.issue("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue writes NAME.pem and NAME-key.pem.
func (a *authority) issue(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	a.last++
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	template.SerialNumber, template.Subject = big.NewInt(a.last), pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	must(a.t, err)
	cert, err := x509.ParseCertificate(der)
	must(a.t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	must(a.t, err)
	must(a.t, os.WriteFile(a.file(name), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(a.t, os.WriteFile(a.file(name+"-key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	return cert, key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name+".pem") }

// etcd's gateway is a client of etcd itself, with the certificate of the server.
var both = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

func TestTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	ours.issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: both})
	ours.issue("client", &x509.Certificate{ExtKeyUsage: both[1:]})
	theirs.issue("client", &x509.Certificate{ExtKeyUsage: both[1:]})
	s := startEtcd(t, "--cert-file", ours.file("server"), "--key-file", ours.file("server-key"), "--trusted-ca-file", ours.file("ca"), "--client-cert-auth")
	good := Options{URL: s.url(), CA: ours.file("ca"), Cert: ours.file("client"), Key: ours.file("client-key")}
	f := open(t, good)
	var err error
	for range 300 { // the gateway comes up after the listener
		if _, err = f.Push(t.Context(), entryOf(1, 4, 20)); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	must(t, err)
	for name, do := range operations {
		if err := do(t.Context(), f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"another CA":                  {func(o *Options) { o.CA = theirs.file("ca") }, "certificate signed by unknown authority"},
		"no CA":                       {func(o *Options) { o.CA = "" }, "certificate signed by unknown authority"},
		"no certificate":              {func(o *Options) { o.Cert, o.Key = "", "" }, "tls"},
		"a certificate of another CA": {func(o *Options) { o.Cert, o.Key = theirs.file("client"), theirs.file("client-key") }, "tls"},
		"no TLS":                      {func(o *Options) { *o = Options{URL: strings.Replace(o.URL, "etcds", "etcd", 1)} }, "etcd http://"},
	} {
		opt := good
		c.change(&opt)
		_, _, err := open(t, opt).Pull(t.Context(), Query{Class: keyOf(1).Class})
		if !(errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNonsense)) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestUserAndPassword(t *testing.T) {
	t.Parallel()
	s := startEtcd(t)
	root := open(t, Options{URL: s.url(), User: "root", Password: "root's"}).backend.(*etcd).gateway
	prefix := []byte("/bitnet-autotune/")
	for _, step := range []struct {
		route   string
		request any
	}{
		{"user/add", map[string]string{"name": "root", "password": "root's"}},
		{"role/add", map[string]string{"name": "root"}},
		{"user/grant", map[string]string{"user": "root", "role": "root"}},
		{"user/add", map[string]string{"name": "tuner", "password": "hunter2"}},
		{"role/add", map[string]string{"name": "tuner"}},
		{"role/grant", map[string]any{"name": "tuner", "perm": map[string]any{"permType": "READWRITE", "key": prefix, "range_end": []byte("/bitnet-autotune0")}}},
		{"user/grant", map[string]string{"user": "tuner", "role": "tuner"}},
		{"enable", struct{}{}},
	} {
		var a headed
		if err := root.call(t.Context(), "/v3/auth/"+step.route, step.request, &a); err != nil {
			t.Fatal(step, err)
		}
	}
	f := open(t, Options{URL: s.url(), User: "tuner", Password: "hunter2"})
	for name, do := range operations {
		if err := do(t.Context(), f); name != "await" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := pull(t, f, 1); len(got) != 1 {
		t.Errorf("pulled %v", got)
	}
	// A token that has expired is replaced, once for everybody or once for each.
	g := f.backend.(*etcd).gateway
	g.mu.Lock()
	g.token = "expired.1"
	g.mu.Unlock()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, _, err := f.Pull(t.Context(), Query{Class: keyOf(1).Class}); err != nil {
				t.Errorf("with an expired token: %v", err)
			}
		})
	}
	wg.Wait()
	for name, opt := range map[string]Options{
		"nobody":           {URL: s.url()},
		"a wrong password": {URL: s.url(), User: "tuner", Password: "hunter3"},
		"a stranger":       {URL: s.url(), User: "stranger", Password: "hunter3"},
		"another's prefix": {URL: s.url() + "/others", User: "tuner", Password: "hunter2"},
	} {
		_, _, err := open(t, opt).Pull(t.Context(), Query{Class: keyOf(1).Class})
		if !errors.Is(err, ErrDenied) || strings.Contains(err.Error(), "hunter") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if st, err := f.Status(t.Context()); err != nil || st.Entries != 1 || len(st.Warnings) > 0 {
		t.Errorf("status %+v, %v", st, err)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	must(t, os.WriteFile(empty, nil, 0o600))
	for name, c := range map[string]struct {
		opt  Options
		want string
	}{
		"nothing":                   {Options{}, "want etcd://HOST:PORT"},
		"another scheme":            {Options{URL: "redis://host"}, "want etcd://HOST:PORT"},
		"no host":                   {Options{URL: "etcd://"}, "want HOST:PORT"},
		"an empty host":             {Options{URL: "etcd://a:1,,b:2"}, "want HOST:PORT"},
		"a user in the URL":         {Options{URL: "etcd://me:hunter2@host"}, "etcd://…@host: a user in the URL"},
		"a CA without TLS":          {Options{URL: "etcd://host", CA: empty}, "only with etcds://"},
		"a CA that is missing":      {Options{URL: "etcds://host", CA: filepath.Join(dir, "none.pem")}, "none.pem: no such file"},
		"a CA that is empty":        {Options{URL: "etcds://host", CA: empty}, "want PEM"},
		"a certificate, no key":     {Options{URL: "etcds://host", Cert: empty}, "certificate"},
		"a relative directory":      {Options{URL: "dir://here"}, "want three slashes"},
		"a directory with password": {Options{URL: "dir:///here", User: "me", Password: "hunter2"}, "knows no certificate"},
		"a negative timeout":        {Options{URL: "dir:///here", Timeout: -1}, "want more than 0"},
	} {
		_, err := Open(t.Context(), c.opt)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") || !strings.HasPrefix(err.Error(), "fleet: open") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	f, err := Open(t.Context(), Options{URL: "etcds://a,[::1]:99,b:1/site/one/"})
	must(t, err)
	e := f.backend.(*etcd)
	if got := fmt.Sprint(e.gateway.endpoints, " ", e.prefix); got != "[https://a:2379 https://[::1]:99 https://b:1] /site/one/v1/" {
		t.Error(got)
	}
	if e.gateway.timeout != 500*time.Millisecond || f.poll != time.Second {
		t.Errorf("by default a timeout of %v, a poll of %v", e.gateway.timeout, f.poll)
	}
	must(t, f.Close())
}

// A password that would cross a network in clear is worth a warning.
func TestPasswordInClear(t *testing.T) {
	for url, want := range map[string]int{"etcd://192.0.2.1": 1, "etcds://192.0.2.1": 0, "etcd://127.0.0.1:1": 0, "etcd://localhost:1,[::1]:1": 0} {
		f := open(t, Options{URL: url, User: "tuner", Password: "hunter2", Timeout: time.Millisecond})
		s, err := f.Status(t.Context())
		if err == nil || len(s.Warnings) != want || strings.Contains(fmt.Sprint(s, err), "hunter2") {
			t.Errorf("%s: %q, %v", url, s.Warnings, err)
		}
	}
}
