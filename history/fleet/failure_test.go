package fleet

import (
	"context"
	"errors"
)

func isClaimed(err error) bool  { return errors.Is(err, ErrClaimed) }
func isFree(err error) bool     { return errors.Is(err, ErrFree) }
func isLost(err error) bool     { return errors.Is(err, errLost) }
func isDeadline(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

func isClaimedBy(err error, holder string) bool {
	var claimed *ClaimedError
	return errors.As(err, &claimed) && claimed.Holder == holder && isClaimed(err)
}
