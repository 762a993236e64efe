package daemon

import (
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// order is what a daemon tells its child: one byte.
type order byte

const (
	workNow   order = 'w' // for a burst
	goOn      order = 'g' // without rests, until told otherwise
	takeTurns order = 't' // with rests
)

// The descriptors of a child by which it is told and asks. exec.Cmd.ExtraFiles begin at 3.
const (
	toldBy = 3
	askBy  = 4
)

// errAlone means that the daemon has gone.
var errAlone = errors.New("daemon: nobody says any more when to work")

// Paced returns the pacer of a child: it asks the daemon that started it.
func Paced() *measure.Pacer {
	return pacedBy(os.NewFile(toldBy, "orders"), os.NewFile(askBy, "questions"))
}

// pacedBy asks with a byte of any kind, and is told with an order. The reader ends with orders.
func pacedBy(orders io.Reader, questions io.Writer) *measure.Pacer {
	var free atomic.Bool
	wake := make(chan struct{}, 1)
	gone := make(chan struct{})
	p := &measure.Pacer{Burst: burstLength}
	go func() {
		defer close(gone)
		for told := make([]byte, 1); ; {
			if _, err := io.ReadFull(orders, told); err != nil {
				return
			}
			free.Store(order(told[0]) == goOn)
			if order(told[0]) != takeTurns {
				select {
				case wake <- struct{}{}:
				default:
				}
			}
		}
	}()
	p.Ask = func(ctx context.Context) (waited bool, err error) {
		select {
		case <-wake: // of a time when nobody waited for it
		default:
		}
		if free.Load() {
			return false, nil
		}
		if _, err := questions.Write([]byte{'?'}); err != nil {
			return false, errAlone
		}
		select {
		case <-wake:
			return true, nil
		case <-gone:
			return true, errAlone
		case <-ctx.Done():
			return true, ctx.Err()
		}
	}
	return p
}
