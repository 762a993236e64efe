package engine

// Status is what became of a process. A failure is one of these and never a cost.
type Status string

// The statuses.
const (
	OK          Status = "ok"
	Hang        Status = "hang"          // it did not end in its time and was killed
	Crash       Status = "crash"         // a signal ended it, or it could not be started
	ExitStatus  Status = "exit_status"   // it ended by itself and said that it failed
	OutOfMemory Status = "out_of_memory" // it said so, or somebody else killed it, as the kernel does then
	Garbage     Status = "garbage"       // it ended well and printed no figure that can be trusted
	Mismatch    Status = "mismatch"      // the check command says that its results are wrong
	Censored    Status = "censored"      // the hypervisor gave its CPU to others while it ran
	Stopped     Status = "stopped"       // the caller ended the run
)

// History is the word for a status in the history, which knows fewer; the note says the rest. What was Stopped is not kept.
func (s Status) History() string {
	switch s {
	case Hang:
		return "timeout"
	case ExitStatus, Garbage:
		return "crash"
	}
	return string(s)
}
