package driver

import (
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"unsafe"
)

// Launch is the shape of a launch.
type Launch struct {
	Grid, Block [3]uint32 // x, y, z; a 0 counts as 1
	SharedBytes uint32    // dynamic
}

// maxParams is what the parameters of a kernel may take, for every driver and device.
const maxParams = 4096

// arguments is the memory of one launch. It is on the heap, where C may read it.
type arguments struct {
	extra LaunchExtra
	size  uint64
	bytes [maxParams]byte
}

var argumentsPool = sync.Pool{New: func() any { return new(arguments) }}

// Launch queues the kernel on a stream of its device. params are all its parameters packed as in C; see Params. The
// driver has read them when Launch returns. It does not allocate.
func (f *Function) Launch(s *Stream, shape Launch, params []byte) error {
	if len(params) > maxParams {
		return fmt.Errorf("driver: launch %s: %d bytes of parameters: at most %d", f.name, len(params), maxParams)
	}
	const op = "cuLaunchKernel"
	if err := s.usable(op); err != nil {
		return err
	}
	if err := f.module.enter(op); err != nil {
		return err
	}
	defer runtime.UnlockOSThread()
	a := argumentsPool.Get().(*arguments)
	a.size = uint64(copy(a.bytes[:], params))
	a.extra = LaunchExtra{BufferTag: 1, Buffer: unsafe.Pointer(&a.bytes), SizeTag: 2, Size: &a.size}
	g, b := shape.Grid, shape.Block
	d := f.module.device
	r := d.t.LaunchKernel(f.handle, max(g[0], 1), max(g[1], 1), max(g[2], 1), max(b[0], 1), max(b[1], 1), max(b[2], 1),
		shape.SharedBytes, s.handle, nil, &a.extra)
	argumentsPool.Put(a)
	return d.Check(op, r)
}

// Params returns the bytes of a struct whose fields are the parameters of a kernel in their order: integers, floats and
// Ptr. Go aligns them as C does; the padding behind the last field, which the kernel does not have, is cut off.
func Params[T any](p *T) []byte {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct || t.NumField() == 0 {
		panic("driver: Params of something else than a struct with fields")
	}
	last := t.Field(t.NumField() - 1)
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), last.Offset+last.Type.Size())
}
