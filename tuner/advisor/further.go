package advisor

// further is the advice of R2.23 that has no figure: what is worth a thought where its condition holds. It is asked for
// with Options.Further, so that a report without it can be empty.
var further = []row{
	remark("further/pruning", Architecture, Hard, "Prune or distil the model", "A smaller model of the same task beats any setting of the larger one.", always),
	remark("further/layer-fusion", Compute, Coding, "Fuse layers", "A norm, the quantisation after it and the matmul after that read and write the same activations three times.", always),
	remark("further/dynamic-quantization", Quantization, Coding, "Quantise activations dynamically, or smooth them first", "Activations with outliers lose less in int8 when their scale is taken per token, or moved into the weights (SmoothQuant, Xiao et al. 2023). Ternary models do the first already.", func(c *Context) bool { return c.Model == nil || c.Model.Tunable() != nil }),
	remark("further/data-parallel", Parallelization, Hard, "Split requests, or layers, over the GPUs", "With several GPUs, each can serve requests of its own (data parallel) or a part of the layers (pipeline parallel).", gpus(2)),
	remark("further/tensor-cores", Hardware, Coding, "Use the tensor cores", "Int8 multiplications run on the tensor cores of Turing and later.", func(c *Context) bool { g, err := c.gpuFrom(7.5); return err == nil && g != nil }),
	remark("further/simd", Hardware, Easy, "Use a build with SIMD", "An engine uses only the instructions that it was built for: "+simdNames+".", func(c *Context) bool { return c.Host.CPU.Features != 0 }),
	remark("further/numa-allocation", MemoryUse, Coding, "Allocate by NUMA node", "Let the threads that read a part of the weights also write it first: it then lies on their node.", func(c *Context) bool { return c.Host.CPU.NUMANodes > 1 }),
	remark("further/dynamic-batching", Parallelization, Coding, "Batch requests as they come", "A server that joins new requests to the running batch reads the weights once for all.", func(c *Context) bool { return c.Current.Is("mode", "inference") }),
	remark("further/prefetching", Compute, Easy, "Prefetch in software", "Reading weights in order, a software prefetch a few KiB ahead can help or hurt; tune tries both.", always),
	remark("further/io", DataPipeline, Easy, "Keep loading off the path of requests", "Map the model's file, or load it before the first request; a cold start reads it from the disk.", always),
}

const simdNames = "AVX2, AVX-512 VNNI or VBMI on amd64, NEON, dot product or i8mm on arm64"

func always(*Context) bool { return true }

// gpus is the condition of at least n usable GPUs.
func gpus(n int) func(*Context) bool {
	return func(c *Context) bool { list, err := c.usableGPUs(); return err == nil && len(list) >= n }
}

// remark is a row of advice without a figure.
func remark(id string, category Category, difficulty Difficulty, title, description string, when func(*Context) bool) row {
	return row{id: id, category: category, difficulty: difficulty, impact: Low, check: func(c *Context) (*Suggestion, error) {
		if !when(c) {
			return nil, nil
		}
		return &Suggestion{Title: title, Description: description, Expected: Improvement{Source: "no figure: general advice"}}, nil
	}}
}
