package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
)

// etcd keeps entries under PREFIX/v1/entry/ and claims, which have a lease, under PREFIX/v1/claim/.
type etcd struct {
	gateway *gateway
	prefix  string
}

// Messages of the gateway. A []byte is base64 in JSON, as the gateway wants it.
type (
	rangeRequest struct {
		Key      []byte `json:"key"`
		End      []byte `json:"range_end,omitempty"`
		Limit    int64  `json:"limit,omitempty,string"`
		KeysOnly bool   `json:"keys_only,omitempty"`
	}
	keyValue struct {
		Key      []byte `json:"key"`
		Value    []byte `json:"value"`
		Revision int64  `json:"mod_revision,string"`
		Lease    int64  `json:"lease,string"`
	}
	rangeAnswer struct {
		headed
		Pairs []keyValue `json:"kvs"`
	}
	compare struct {
		Key      []byte `json:"key"`
		Target   string `json:"target"`
		Result   string `json:"result"`
		Revision int64  `json:"mod_revision,string"`
	}
	put struct {
		Key   []byte `json:"key"`
		Value []byte `json:"value"`
		Lease int64  `json:"lease,omitempty,string"`
	}
	operation struct {
		Put   *put          `json:"request_put,omitempty"`
		Range *rangeRequest `json:"request_range,omitempty"`
	}
	txnRequest struct {
		Compare []compare   `json:"compare"`
		Success []operation `json:"success"`
		Failure []operation `json:"failure"`
	}
	txnAnswer struct {
		headed
		Succeeded bool `json:"succeeded"`
		Responses []struct {
			Range struct {
				Pairs []keyValue `json:"kvs"`
			} `json:"response_range"`
		} `json:"responses"`
	}
	leaseAnswer struct {
		headed
		ID  int64 `json:"ID,string"`
		TTL int64 `json:"TTL,string"`
	}
	aliveAnswer struct {
		Result leaseAnswer `json:"result"`
	}
)

func (a aliveAnswer) head() header { return a.Result.Header }

func newEtcd(secure bool, rest string, opt Options) (*etcd, error) {
	hosts, prefix, _ := strings.Cut(rest, "/")
	g, err := newGateway(secure, hosts, opt)
	if err != nil {
		return nil, err
	}
	prefix = strings.Trim(prefix, "/")
	if prefix == "" {
		prefix = "bitnet-autotune"
	}
	return &etcd{g, fmt.Sprintf("/%s/v%d/", prefix, formatVersion)}, nil
}

func (e *etcd) close() { e.gateway.client.CloseIdleConnections() }

func (e *etcd) key(path string) []byte { return []byte(e.prefix + path) }

func (e *etcd) list(ctx context.Context, prefix string) ([]string, error) {
	first := e.key(prefix)
	end := append([]byte{}, first...)
	end[len(end)-1]++ // what comes after every key that begins so: a prefix ends in a slash
	var a rangeAnswer
	if err := e.gateway.call(ctx, "/v3/kv/range", rangeRequest{Key: first, End: end, Limit: maxListed, KeysOnly: true}, &a); err != nil {
		return nil, err
	}
	paths := make([]string, len(a.Pairs))
	for i, pair := range a.Pairs {
		paths[i] = strings.TrimPrefix(string(pair.Key), e.prefix)
	}
	return paths, nil
}

func (e *etcd) read(ctx context.Context, path string) (item, error) {
	pair, err := e.get(ctx, path)
	return item{revision: pair.Revision, value: pair.Value}, err
}

func (e *etcd) get(ctx context.Context, path string) (keyValue, error) {
	var a rangeAnswer
	if err := e.gateway.call(ctx, "/v3/kv/range", rangeRequest{Key: e.key(path)}, &a); err != nil || len(a.Pairs) == 0 {
		return keyValue{}, err
	}
	if string(a.Pairs[0].Key) != string(e.key(path)) || a.Pairs[0].Revision <= 0 {
		return keyValue{}, fail(ErrNonsense, "etcd %s: asked for %s it answers with %.80q", e.gateway.answered(), path, a.Pairs[0].Key)
	}
	return a.Pairs[0], nil
}

func (e *etcd) swap(ctx context.Context, path string, revision int64, value []byte) (bool, error) {
	a, err := e.replace(ctx, path, revision, put{Key: e.key(path), Value: value})
	return a.Succeeded, err
}

// replace puts a value where the revision is still the one given, 0 for none; else it answers with what is there.
func (e *etcd) replace(ctx context.Context, path string, revision int64, p put) (txnAnswer, error) {
	var a txnAnswer
	err := e.gateway.call(ctx, "/v3/kv/txn", txnRequest{
		Compare: []compare{{Key: e.key(path), Target: "MOD", Result: "EQUAL", Revision: revision}},
		Success: []operation{{Put: &p}},
		Failure: []operation{{Range: &rangeRequest{Key: e.key(path)}}},
	}, &a)
	return a, err
}

// claimDocument is a claim as it is stored. The ttl is of use where the store does not know it by itself.
type claimDocument struct {
	Holder string `json:"holder"` // "": it was released
	TTL    int64  `json:"ttl_ms,omitempty"`
	ID     string `json:"id,omitempty"` // tells claims of one holder apart
}

// holderOf is who holds a claim; a document that is none is somebody's too.
func holderOf(value []byte) string {
	var d claimDocument
	if json.Unmarshal(value, &d) != nil || d.Holder == "" {
		return shown(" ")
	}
	return shown(d.Holder)
}

func (e *etcd) holder(ctx context.Context, path string) (string, error) {
	pair, err := e.get(ctx, path)
	if err != nil || pair.Revision == 0 {
		return "", err
	}
	return holderOf(pair.Value), nil
}

// take looks first, so that hosts that wait leave no leases behind.
func (e *etcd) take(ctx context.Context, path, holder string, ttl time.Duration) (lease, error) {
	if other, err := e.holder(ctx, path); err != nil || other != "" {
		return nil, claimedOr(other, err)
	}
	var granted leaseAnswer
	seconds := int64((ttl + time.Second - 1) / time.Second)
	if err := e.gateway.call(ctx, "/v3/lease/grant", map[string]string{"TTL": fmt.Sprint(seconds)}, &granted); err != nil {
		return nil, err
	}
	if granted.ID == 0 {
		return nil, fail(ErrNonsense, "etcd %s: a lease without an ID", e.gateway.answered())
	}
	l := &etcdLease{e, granted.ID}
	other, err := e.attach(ctx, path, holder, l.id)
	if err == nil && other == "" {
		return l, nil
	}
	l.drop(context.WithoutCancel(ctx)) // else it falls by itself
	return nil, claimedOr(other, err)
}

func claimedOr(other string, err error) error {
	if err != nil {
		return err
	}
	return &ClaimedError{other}
}

// attach puts the claim under a lease, or says who was faster.
func (e *etcd) attach(ctx context.Context, path, holder string, id int64) (other string, err error) {
	value, err := history.Marshal(claimDocument{Holder: holder})
	if err != nil {
		return "", err
	}
	a, err := e.replace(ctx, path, 0, put{Key: e.key(path), Value: value, Lease: id})
	if err != nil || a.Succeeded {
		return "", err
	}
	if len(a.Responses) != 1 || len(a.Responses[0].Range.Pairs) != 1 {
		return "", fail(ErrNonsense, "etcd %s: it refuses a claim and does not say whose it is", e.gateway.answered())
	}
	there := a.Responses[0].Range.Pairs[0]
	if there.Lease == id {
		return "", nil // sent twice, the first one went through
	}
	return holderOf(there.Value), nil
}

type etcdLease struct {
	etcd *etcd
	id   int64
}

func (l *etcdLease) renew(ctx context.Context) error {
	var a aliveAnswer
	err := l.etcd.gateway.call(ctx, "/v3/lease/keepalive", map[string]string{"ID": fmt.Sprint(l.id)}, &a)
	if err == nil && a.Result.TTL <= 0 {
		return errLost
	}
	return err
}

func (l *etcdLease) drop(ctx context.Context) error {
	var a headed
	return l.etcd.gateway.call(ctx, "/v3/lease/revoke", map[string]string{"ID": fmt.Sprint(l.id)}, &a)
}

// answered is the endpoint that answered last.
func (g *gateway) answered() string { return g.endpoints[g.preferred.Load()] }

func (e *etcd) describe(ctx context.Context, s *Status) {
	var a struct {
		headed
		Version string   `json:"version"`
		Leader  uint64   `json:"leader,string"`
		Errors  []string `json:"errors"`
	}
	s.Backend = "etcd"
	err := e.gateway.call(ctx, "/v3/maintenance/status", struct{}{}, &a)
	s.Endpoint, s.Version = e.gateway.answered(), oneLine(a.Version)
	if err == nil && a.Leader == 0 {
		s.warn("etcd %s has no leader", s.Endpoint)
	}
	for _, text := range a.Errors {
		s.warn("etcd %s: %s", s.Endpoint, oneLine(text))
	}
	for _, endpoint := range e.gateway.endpoints {
		if e.gateway.user != "" && strings.HasPrefix(endpoint, "http://") && !loopback(endpoint) {
			s.warn("the password of %s goes to %s in clear: use etcds://", e.gateway.user, endpoint)
		}
	}
}

func loopback(endpoint string) bool {
	host, _, err := net.SplitHostPort(strings.TrimPrefix(endpoint, "http://"))
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || (ip != nil && ip.IsLoopback()))
}
