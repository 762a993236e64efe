package device_test

import (
	"fmt"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
)

// R0.37: the rules on a host of 8 cores, first without a GPU, then with one of 6 GiB.
func ExampleDecide() {
	host := probe.Host{CPU: probe.CPU{UsablePhysical: 8, UsableCores: 16}, Memory: probe.Memory{TotalBytes: 16 << 30, AvailableBytes: 12 << 30}}
	m, _ := model.Preset("bitnet-b1.58-2b-4t")
	needs := device.Defaults.Require(m, device.Use{Context: 2048})
	for _, gpus := range []gpu.Survey{{}, {GPUs: []gpu.GPU{{UUID: "GPU-1", Memory: gpu.Memory{TotalBytes: 6 << 30, FreeBytes: 5 << 30}}}}} {
		d, err := device.Decide(host, gpus, needs, device.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Strategy.Value, "because", d.Strategy.Reason)
		fmt.Println(d.Threads.Value, "threads, batch", d.Batch.Value)
	}
	// Output:
	// cpu_only because no GPU was found
	// 8 threads, batch 16
	// gpu_only because GPU 0 has 4.4 GiB available for the 1.4 GiB required, and its 1.1 GiB are at least 1.0 GiB
	// 2 threads, batch 8
}

// R0.37: constants and answers that the caller knows better.
func ExampleOptions() {
	host := probe.Host{CPU: probe.CPU{UsablePhysical: 8, UsableCores: 16}, Memory: probe.Memory{TotalBytes: 16 << 30, AvailableBytes: 12 << 30}}
	m, _ := model.Preset("bitnet-b1.58-2b-4t")
	constants := device.Defaults
	constants.Batches = []int{1, 6}
	d, err := device.Decide(host, gpu.Survey{}, constants.Require(m, device.Use{}), device.Options{
		Constants: &constants,
		Overrides: device.Overrides{Threads: 3},
	})
	fmt.Println(d.Batch.Value, d.Threads.Value, d.Threads.Reason, err)
	// Output:
	// 6 3 overridden; else: one for each core: 8 physical cores may be used <nil>
}
