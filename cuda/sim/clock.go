package sim

import "time"

// What calls take of the host, in virtual time. These are orders of magnitude from documents and reports, none of them
// measured by this project: a call that only looks something up, an allocation that reaches the kernel driver, a query of
// memory (5 to 12 µs reported), a launch (2 to 4 µs reported).
const (
	callTime       = 200 * time.Nanosecond
	initTime       = 50 * time.Millisecond
	contextTime    = 80 * time.Millisecond
	allocTime      = 40 * time.Microsecond
	freeTime       = 30 * time.Microsecond
	asyncAllocTime = 500 * time.Nanosecond
	createTime     = 20 * time.Microsecond
	mapTime        = 10 * time.Microsecond
	unmapTime      = 10 * time.Microsecond
	accessTime     = 10 * time.Microsecond
	infoTime       = 8 * time.Microsecond
	submitTime     = 1 * time.Microsecond
	launchTime     = 2500 * time.Nanosecond
	graphTime      = 3 * time.Microsecond
	jitTime        = 20 * time.Millisecond
)

// What a device takes besides the time of the work itself.
const (
	kernelLatency = 2 * time.Microsecond // from one kernel to the next in a stream
	nodeLatency   = 1 * time.Microsecond // the same in a graph
	copyLatency   = 5 * time.Microsecond
	eventStep     = 500 * time.Nanosecond // the resolution of events
)
