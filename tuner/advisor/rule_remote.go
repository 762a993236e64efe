package advisor

import (
	"fmt"
	"slices"
)

// remoteRule: weights on another socket's memory cross the link between the sockets for every token.
var remoteRule = row{id: "memory/remote-node", category: MemoryUse, difficulty: Easy, check: func(c *Context) (*Suggestion, error) {
	k := c.constants()
	if c.Host.CPU.NUMANodes == 1 {
		return nil, nil
	}
	if c.Host.CPU.NUMANodes == 0 {
		return nil, &Missing{Part: "NUMA nodes of the host"}
	}
	if c.Signals == nil || len(c.Signals.NodeBytes) == 0 || len(c.Signals.Nodes) == 0 {
		return nil, &Missing{Part: "where the memory of the process lies: name it with --pid"}
	}
	share := c.Signals.remoteShare()
	if share <= k.RemoteShare {
		return nil, nil
	}
	return &Suggestion{
		Title:       "Bring the weights to the node that reads them",
		Description: fmt.Sprintf("%.0f %% of the memory of the process is further away than it could be: it may run on the nodes %v.", 100*share, c.Signals.Nodes),
		Expected:    Improvement{Speed: between(k.RemoteLow, k.RemoteHigh), Of: "decode", Source: "our estimate from the bandwidth of a link between sockets; not measured here"},
		Steps:       []string{"Bind process and memory to one node, if the model fits there", "Else interleave the weights over the nodes, or load them with the threads that will read them"},
		Examples:    []string{"numactl --cpunodebind=0 --membind=0 llama-server ...", "llama-server --numa distribute ..."},
		Warnings:    []string{"pages that are in the page cache already stay where they are: drop them before loading again"},
	}, nil
}}

// remoteShare is how much of the memory lies wrong: on nodes whose CPUs the process may not use, and, where it may use
// several, what the fullest of them holds above an even share.
func (s Signals) remoteShare() float64 {
	var total, remote, fullest uint64
	for node, bytes := range s.NodeBytes {
		total += bytes
		if !slices.Contains(s.Nodes, node) {
			remote += bytes
		} else {
			fullest = max(fullest, bytes)
		}
	}
	if total == 0 {
		return 0
	}
	even := (total - remote) / uint64(len(s.Nodes))
	return float64(remote+fullest-min(even, fullest)) / float64(total)
}
