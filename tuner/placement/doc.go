/*
Package placement joins what a host can do with what a model needs: what family a model is of, which hardware suits it, which
models serve a task here, and which model of a set goes to which device.

# Basics

	devices := placement.DefaultRules.Devices(host, survey, 0)                       // GPUs, and last the CPU
	d := placement.DefaultRules.Describe(subject, device.Use{}, devices, matrix)     // family, hardware, template, needs
	plan, err := placement.DefaultRules.Plan(wants, devices, matrix)                 // which model goes where, and why

Classify tells the family by the architecture and the tensors of a file, or else by the name alone, which its confidence
shows. What is unknown stays so: an unknown family is for the CPU, an unknown size is 0, and both come with a warning.

The Matrix says how well each family runs on each kind of hardware. It is data (matrix.json), every cell can be overridden,
and the cells of the CPU's layouts come from the table of kernels and show what was measured.

Plan minimises, in this order: the models left over; the wishes for a device that are missed; and the time of a token of every
model, times its users, while all decode and the models of a device share its bandwidth evenly:

	for each device { cost += (models on it) * Σ users * (bytes that a token reads) / bandwidth }

A device's room is what its driver, or the kernel within the cgroup, says is free, less a reserve; it is never exceeded. Devices
of one kind and speed are the same to that measure, and then text generation goes to GPU 0, vision to GPU 1, and of the rest the
largest to the first. What has no place is told with the changes that would give it one, each of which was tried.

Select chooses one device by a list of kinds and an index, with explained fallbacks; Pool loads models, each once, and shares
them; Profile is what of a host decides what runs on it, to be stored and verified later. Recommend ranks a catalog for a task.

# Caveats

Nothing is measured here. Sizes are those of tuner/device, and times are what reading takes, except that the ternary matmuls
of a model on the CPU take what they were measured to take where Need.TokensPerSecond says so. A model that is bound by
arithmetic, as embedding whole passages is, takes longer than its estimate on every device.

Every model of a set is taken to decode all the time. A set of which one is used at a time is served better by putting all of it
on the quickest device.

More models come before larger ones: where not all fit, the largest is the likeliest to be left over. A model that must have a
place is asked for alone, or first, with Select.

MPS, ROCm, OpenVINO, WebNN and WebGPU are columns of the matrix and kinds in a description; this project finds and runs CUDA and
the CPU.

That a device more never makes a plan worse is proven where the plan is (Plan.Optimal), and beyond that as long as the devices
have no more than Constants.DeviceSubsets different subsets, which is 6 of different kinds or 31 equal ones beside the CPU.

# Decisions

2026-11-21: Branch and bound by own code, some 150 lines. The road not taken, a solver of integer programs, would be a
dependency in C for sets of a dozen models, and the cost is quadratic. The bound takes free room as one piece for the number
of models, and for each the least that it costs next for the time: 20 models on 9 devices are proven in some 15 ms.

2026-11-21: The best is proven within a number of partial plans, not within a time: the same question has the same answer on a
loaded machine. Beyond it local search with a fixed seed answers, and the plan says that it is not proven. Of 400 random
instances with scarce room, 12 to 20 models on 2 to 7 devices, 374 were proven, and all but 3 were within 2 % of the optimum; the
worst leaves one model more over.

2026-11-21: A device's bandwidth is shared evenly by its models. The road not taken, the sum of their times alone, puts
everything on the quickest GPU and leaves an equal one idle.

2026-11-21: Text generation on GPU 0 and vision on GPU 1 decide between devices of equal speed only. The road not taken, fixed
indices, would put the largest model on a slower card for its number.

2026-11-21: One load for one name. Two wishes for one model on two devices are an error: replicas are two names.

2026-11-21: A GPU's room obeys both limits of cuda/memory, the reserve of the moment and the budget of the card. Besides its
weights and working memory a model takes there what its kernels state: their results, since they never dequantise.

2026-11-21: The instances of a card that MIG splits get indices of their own, after those of all cards, since NVML gives them the
card's and a plan has one device for one name. UUIDs tell which is which. The road not taken, names such as cuda:0.1, would be
names that only this program has.

2026-11-21: The CPU has a column of its own beside the six of the requirements, medium for the families that there are ternary
models of, low for others. Without it the CPU would come behind hardware that the matrix calls low.
*/
package placement
