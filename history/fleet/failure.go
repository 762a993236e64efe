package fleet

import (
	"errors"
	"fmt"
)

// What can be wrong with the place where configs are shared. Whoever gets one of these carries on without it.
var (
	ErrUnavailable = errors.New("unavailable") // it is down, slow or out of reach
	ErrFull        = errors.New("full")        // it takes no more: a quota, a disk, a limit on the size of a request
	ErrDenied      = errors.New("denied")      // it wants other credentials
	ErrNonsense    = errors.New("nonsense")    // its answer is not one
)

// failure is one line that is one of the above, and perhaps the end of a context besides.
type failure struct {
	kinds []error
	text  string
}

func fail(kind error, format string, args ...any) error {
	return &failure{[]error{kind}, fmt.Sprintf(format, args...)}
}

func (f *failure) Error() string   { return f.text }
func (f *failure) Unwrap() []error { return f.kinds }
