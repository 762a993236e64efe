package ptx_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/sim/ptx"
)

// A kernel that squares numbers, and what happens when it is launched on more threads than there are numbers.
func Example() {
	module, err := ptx.Parse(`
.version 7.8
.target sm_80
.address_size 64
.visible .entry square(.param .u64 numbers) {
	.reg .b32 %r<3>;
	.reg .b64 %a<3>;
	ld.param.u64 %a0, [numbers];
	mov.u32 %r0, %tid.x;
	mul.wide.u32 %a1, %r0, 4;
	add.s64 %a2, %a0, %a1;
	ld.global.u32 %r1, [%a2];
	mul.lo.u32 %r2, %r1, %r1;
	st.global.u32 [%a2], %r2;
	ret;
}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	kernel, err := module.Kernel("square")
	if err != nil {
		fmt.Println(err)
		return
	}
	var memory ptx.Heap
	numbers := []byte{3, 0, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0}
	params := binary.LittleEndian.AppendUint64(nil, memory.Put(numbers))
	stats, err := kernel.Launch(context.Background(), &memory, ptx.Launch{Block: [3]int{3}, Params: params})
	fmt.Println(numbers[0], numbers[4], numbers[8], stats.ByOpcode["mul.lo.u32"], err)

	_, err = kernel.Launch(context.Background(), &memory, ptx.Launch{Block: [3]int{4}, Params: params})
	var fault *ptx.Fault
	if errors.As(err, &fault) {
		fmt.Printf("%s, line %d, thread %d\n", fault.Kind, fault.Line, fault.Thread[0])
	}
	// Output:
	// 9 25 49 3 <nil>
	// out of bounds, line 12, thread 3
}
