package main

import (
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

const (
	avx512 = probe.SSE42 | probe.AVX | probe.AVX2 | probe.AVX512 | probe.AVX512VNNI
	vbmi   = avx512 | probe.AVX512VBMI
)

// Barriers: 0.3 µs is what a warm pool of two takes (0.1 to 1.2 µs, facts of this project); what each further worker adds,
// the time of a line that moves between cores, is assumed: more where it crosses sockets.
const (
	fanOut     = 300 * time.Nanosecond
	sameSocket = 30 * time.Nanosecond
	twoSockets = 60 * time.Nanosecond
)

// machines are described by published figures, each with its source; what has none is assumed and says so. Clocks are
// assumed throughout: they move the arithmetic of all kernels alike.
var machines = []machine{
	{
		// One core reads 20.9 GB/s from memory, all of them 169.6: learn.arm.com, learning path "memory-subsystem", pages
		// streaming-bandwidth and multicore-bandwidth (ASCT on a Graviton2). 64 cores without SMT: those of the chip;
		// that the instance had all of them is assumed. A build for amd64 has no kernels for it but the portable ones, which
		// here are given the assumed speed of its own; so the space is threads, chunks and batches.
		name: "graviton2", cores: 64, nodes: 1, smt: 1, clock: 2.5, core: 20.9, node: 169.6,
		portable: speed{12, 25}, barrier: fanOut, signal: sameSocket,
	},
	{
		// 175.7 GB/s a node, 55.7 from the other, 351.8 together: github.com/gjbex/Code-optimization info/icelake_mlc.txt
		// (Intel MLC 3.10, reads only, two sockets of Ice Lake). 36 cores a socket and 14 GB/s a core: assumed.
		name: "2x-icelake", cores: 36, nodes: 2, smt: 2, clock: 2.4, core: 14, node: 175.7, link: 55.7,
		features: vbmi, barrier: fanOut, signal: twoSockets,
	},
	{
		// 112.9 GB/s a node, 34.3 from the other: info/cascadelake_mlc.txt of the same, two sockets of Cascade Lake. 18
		// cores a socket and 12 GB/s a core: assumed.
		name: "2x-cascadelake", cores: 18, nodes: 2, smt: 2, clock: 2.6, core: 12, node: 112.9, link: 34.3,
		features: avx512, barrier: fanOut, signal: twoSockets,
	},
	{
		// 233.1 GB/s a node and 116.2 from the other, with 20 threads: github.com/RRZE-HPC/likwid/issues/664 (Sapphire
		// Rapids, likwid-bench). So a core reads 11.7 GB/s at the least. 52 cores a socket: assumed. SMT off.
		name: "2x-sapphirerapids", cores: 52, nodes: 2, smt: 1, clock: 2.6, core: 12.5, node: 233.1, link: 116.2,
		features: vbmi, barrier: fanOut, signal: twoSockets,
	},
	{
		// 96 cores, 192 threads, 460 GB/s by its DIMMs, most tokens with about 60 threads: github.com/ggml-org/llama.cpp/
		// issues/6434. 650 to 780 GB/s with two sockets of that generation (Azure HBv4): learn.microsoft.com,
		// "stream-benchmark"; half the middle of it here. 25 GB/s a core: assumed.
		name: "epyc-9654", cores: 96, nodes: 1, smt: 2, clock: 3.1, core: 25, node: 357,
		features: vbmi, barrier: fanOut, signal: sameSocket,
	},
	{
		// The same in a container whose quota of 12 CPUs belongs to a group above that it cannot see: what is burnt
		// beyond it is throttled (as in github.com/ollama/ollama/issues/17916, 3115 of 4567 periods). All but the host is
		// assumed.
		name: "epyc-9654-quota-12", cores: 96, nodes: 1, smt: 2, clock: 3.1, core: 25, node: 357, quota: 12,
		features: vbmi, barrier: fanOut, signal: sameSocket,
	},
	{
		// A desktop with 8 fast cores of two threads and 16 slow ones of one. Two channels of DDR5-5600 carry 89.6 GB/s by
		// arithmetic; nine tenths of it here. Speed of the slow cores and all else: assumed.
		name: "hybrid-8+16", cores: 24, nodes: 1, smt: 2, efficient: 16, slow: 0.45, clock: 4.5, core: 35, node: 80,
		features: probe.SSE42 | probe.AVX | probe.AVX2 | probe.AVXVNNI, barrier: fanOut, signal: sameSocket,
	},
}
