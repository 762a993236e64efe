package fleet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
)

// A claim in a directory is a value like an entry. It is renewed by replacing it with itself, so its age is that of the
// file, and what time it is now is the age of a file that was made now: both by the clock of the file system, which is
// one for all hosts. It is released by a document without a holder.

// slack is how much longer than its ttl a claim is left alone: ext3 and NFS 2 keep whole seconds.
const slack = time.Second

func (d *directory) holder(ctx context.Context, p string) (string, error) {
	return within(ctx, d, func(root *os.Root) (string, error) {
		it, err := d.get(root, p)
		if err != nil {
			return "", err
		}
		return d.holds(root, it), nil
	})
}

// holds is who holds a claim, "" for nobody.
func (d *directory) holds(root *os.Root, it item) string {
	var doc claimDocument
	if json.Unmarshal(it.value, &doc) != nil || doc.Holder == "" {
		return ""
	}
	ttl := min(max(time.Duration(doc.TTL)*time.Millisecond, minTTL), maxTTL) + slack
	now, err := d.now(root)
	if err != nil {
		return shown(doc.Holder) // nothing can be written here, so nothing could be claimed either
	}
	if age := now.Sub(it.at); age < -ttl || age > ttl { // one from the future was not made by us
		return ""
	}
	return shown(doc.Holder)
}

func (d *directory) take(ctx context.Context, p, holder string, ttl time.Duration) (lease, error) {
	doc, err := history.Marshal(claimDocument{holder, ttl.Milliseconds(), rand.Text()})
	if err != nil {
		return nil, err
	}
	return within(ctx, d, func(root *os.Root) (lease, error) {
		for range maxAttempts {
			it, err := d.get(root, p)
			if err != nil {
				return nil, err
			}
			if other := d.holds(root, it); other != "" {
				return nil, &ClaimedError{other}
			}
			if ok, err := d.replace(root, p, it.revision, doc); err != nil {
				return nil, err
			} else if ok {
				return &directoryLease{d, p, doc}, nil
			}
		}
		return nil, fail(ErrUnavailable, "directory %s: %s changed under %d attempts", d.dir, p, maxAttempts)
	})
}

type directoryLease struct {
	directory *directory
	path      string
	document  []byte
}

func (l *directoryLease) renew(ctx context.Context) error { return l.change(ctx, l.document) }

func (l *directoryLease) drop(ctx context.Context) error {
	return l.change(ctx, []byte(`{"holder":""}`))
}

// change replaces the claim if it is still this one.
func (l *directoryLease) change(ctx context.Context, value []byte) error {
	_, err := within(ctx, l.directory, func(root *os.Root) (struct{}, error) {
		it, err := l.directory.get(root, l.path)
		if err != nil {
			return struct{}{}, err
		}
		if string(it.value) != string(l.document) {
			return struct{}{}, &failure{[]error{errLost}, "the claim is another's"}
		}
		ok, err := l.directory.replace(root, l.path, it.revision, value)
		if err == nil && !ok {
			err = &failure{[]error{errLost}, "the claim was taken over"}
		}
		return struct{}{}, err
	})
	return err
}
