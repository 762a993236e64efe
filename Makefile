# bitnet-autotune: `make` lists what there is to make.

GO      ?= go
MODEL   ?= bitnet-b1.58-2b-4t
BUDGET  ?= 60s
BIN     := bin/bitnet-autotune

# Where the recorded spaces and the real GGUF files lie that some tests read.
export REPLAY_DATA ?= $(abspath ../shared/replay)
export GGUF_DATA   ?= $(abspath ../shared/gguf)

SHELL := bash
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.DEFAULT_GOAL := help
.PHONY: help build tune gpu test check paranoid stress race lint generate generate-check ptx ptx-check simulate cross emulate emulate-qemu emulate-bochs emulate-avxvnni browser fuzz bench cover deps clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the command into bin/
	@$(GO) build -trimpath -o $(BIN) ./cmd/bitnet-autotune

tune: build ## tune this host for $(MODEL) within $(BUDGET) and print the config
	@$(BIN) tune --model $(MODEL) --budget $(BUDGET) || test $$? -eq 3
	@$(BIN) config --model $(MODEL)

test: ## run the tests (Go and gcc are enough, under 3 minutes on 2 cores)
	$(GO) vet ./...
	$(GO) test $$($(GO) list ./... | grep -v /cmd/)
	$(GO) test ./cmd/... # alone, since its scripts measure

check: lint race stress generate-check simulate cross emulate browser fuzz ## everything that CI asks: race detector, linters, generated code, CUDA kernels, cross builds, a browser, fuzz seeds

# The hard tests of the history, each of which prints a line with what it counted. A stage of them can be run alone, and
# each figure set: make paranoid STAGES=TestKilled KILLS=5000
STAGES  := TestKilled|TestCorruptFiles|TestCut|TestFullDisk|TestInjected|TestContention|TestReadersDoNotWait|TestScale|TestPower
HARDEST  = set -o pipefail; $(GO) test ./history -count 1 -v -timeout 6h -run '$(STAGES)' $(BOUNDS) -kills $(KILLS) \
	-corruptions $(CORRUPTIONS) -contend $(CONTEND) -records $(RECORDS) -states $(STATES) | awk -f history/_stress/summary.awk

stress: KILLS := 100
stress: CORRUPTIONS := 10
stress: CONTEND := 10
stress: RECORDS := 200000
stress: STATES := 2000
stress: ## the history killed, damaged, cut, starved and filled, a short version, and the fleet's etcd killed, full and slow
	@$(HARDEST)
	BITNET_AUTOTUNE_REQUIRE=etcd $(GO) test -count 1 ./history/fleet

paranoid: KILLS := 800
paranoid: CORRUPTIONS := 131
paranoid: CONTEND := 100
paranoid: RECORDS := 10000000
paranoid: STATES := 44000
paranoid: BOUNDS := -paranoid
paranoid: ## the same in full: 1,000 kills, 3,406 damaged files, 44,000 states of a power failure, 10 million records
	@$(HARDEST)
	$(GO) test -count 1 -timeout 30m -run 'Chaos|False' ./tuner/daemon -chaos 200 -quiet 10000

race: ## run the tests under the race detector, kernels on their shorter grid
	$(GO) test -race -short -timeout 30m $$($(GO) list ./... | grep -v /cmd/)
	$(GO) test -race -short -timeout 30m ./cmd/...

lint: ## gofmt, go vet, staticcheck
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags hyperparameters,candidates ./bandit
	$(GO) vet -tags browser ./experiments/report ./tuner/dashboard
	$(GO) run $(STATICCHECK) ./...

generate: ## regenerate the assembly from its generators
	$(GO) generate ./kernels/...

ptx: ## compile the CUDA kernels to PTX (clang-19, no CUDA toolkit)
	$(GO) test ./cuda/kernels -count 1 -run TestPTXIsWhatTheCompilerMakes -ptx=update

ptx-check: ## the committed PTX is what clang-19 makes of the CUDA kernels
	BITNET_AUTOTUNE_REQUIRE=clang $(GO) test ./cuda/kernels -count 1 -run TestPTXIsWhatTheCompilerMakes -ptx=check

simulate: ## run every CUDA kernel on every case in the interpreter of PTX
	$(GO) test ./cuda/kernels -count 1 -timeout 30m -run 'Equal' -full

generate-check: ptx-check ## the committed assembly and PTX are what their generators make
	$(GO) generate ./kernels/...
	git diff --exit-code -- kernels
	@test -z "$$(git status --porcelain -- kernels)" || { echo "not committed:"; git status --porcelain -- kernels; exit 1; }

cross: ## it builds without cgo and for arm64, and what rests on assembly passes without it
	CGO_ENABLED=0 $(GO) build ./...
	CGO_ENABLED=0 BITNET_AUTOTUNE_REQUIRE=gcc $(GO) test ./cuda/driver ./probe/gpu
	CGO_LDFLAGS=-Wl,-z,now $(GO) test ./probe/gpu
	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 $(GO) vet ./...
	$(GO) test -tags purego ./kernels/... ./tuner/...
	$(GO) test -tags noasm -run Golden ./bandit

# The emulated CPUs, one for each step in which kernels differ, and for each the extensions whose kernels must have run.
REQUIRE_Nehalem     :=
REQUIRE_Haswell     := avx2
REQUIRE_cortex-a72  := neon
REQUIRE_neoverse-n1 := neon,dotprod
REQUIRE_max         := neon,dotprod
REQUIRE_Ice-Lake    := avx512vnni,avx512vbmi

emulate: ## run the tests of package kernels on emulated CPUs, one for each set of extensions, and the golden searches on arm64
	@$(MAKE) --no-print-directory -j2 emulate-bochs emulate-avxvnni emulate-qemu

emulate-qemu:
	@GO="$(GO)" kernels/_emulate/qemu.sh \
	  $(foreach cpu,Nehalem Haswell,amd64:$(cpu):$(REQUIRE_$(cpu))) \
	  $(foreach cpu,cortex-a72 neoverse-n1 max,arm64:$(cpu):$(REQUIRE_$(cpu)))
	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 $(GO) test -count 1 -exec qemu-aarch64 -run Golden ./bandit

emulate-bochs:
	@GO="$(GO)" kernels/_emulate/bochs.sh $(REQUIRE_Ice-Lake) '^(TestKernels|TestReadLoop|TestPeakLoop).*/avx(512|vnni)|TestRequired|FuzzKernels'

# On a host without AVX-512 VNNI the kernel is skipped here; Bochs runs it anyway.
emulate-avxvnni:
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; kernels/_emulate/overlay.sh "$$dir"; \
	  BITNET_AUTOTUNE_REQUIRE=objdump,llvm-mc $(GO) test -overlay "$$dir/overlay.json" -run 'TestKernels.*/avxvnni|TestBytes|TestWords' ./kernels

browser: ## open a report of replay and the page of the daemon in a browser (chromium), look at every plot, press every button
	$(GO) test -tags browser -count 1 -run Browser ./experiments/report ./tuner/dashboard

FUZZTIME ?= 5s
# Go before 1.27 may report the end of the time itself as a failure with no input to blame (go.dev/issue/75804).
fuzz: ## run every fuzz target for $(FUZZTIME) from its seeds
	@set -e; pkgs=$$($(GO) list ./...); for pkg in $$pkgs; do \
	  list=$$($(GO) test -list '^Fuzz' $$pkg) || { echo "$$list"; exit 1; }; \
	  for target in $$list; do case $$target in Fuzz*) \
	    echo "fuzz $$pkg $$target"; \
	    out=$$($(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg 2>&1) || case $$out in \
	      *"Failing input"*) echo "$$out"; exit 1;; \
	      *"context deadline exceeded"*) ;; \
	      *) echo "$$out"; exit 1;; \
	    esac; echo "$$out" | tail -n 3;; esac; \
	  done; done

bench: ## the Go benchmarks of every package
	$(GO) test -run '^$$' -bench . -benchmem ./...

gpu: build ## all that takes a GPU: PTX assembled, kernels checked, bench, allocator costs, a full tune; results under experiments/
	@cuda/_gpu/run.sh $(MODEL) $(BUDGET)

cover: ## test coverage by package
	$(GO) test -cover ./...

deps: ## download the Go modules, and install what make check needs from Debian's packages (as root): emulators, clang, a browser, etcd
	$(GO) mod download
	cd kernels/_asm && $(GO) mod download
	kernels/_emulate/install.sh
	cuda/kernels/_ptx/install.sh
	experiments/report/_browser/install.sh
	history/fleet/_etcd/install.sh

clean: ## remove what was built
	rm -rf bin
