#!/bin/bash
# run.sh MODEL BUDGET: everything that takes a GPU, on this machine: all PTX assembled, the conformance list through the real
# driver, the memory checker, the kernel sweep, allocator costs and a full tune. The results go to a dated folder under
# experiments/. It changes no clock, no persistence mode and no partition of the card.
set -euo pipefail
cd "$(dirname "$0")/../.."
model=${1:-bitnet-b1.58-2b-4t} budget=${2:-120s}
bin=bin/bitnet-autotune

reason=$("$bin" gpu memory 2>&1 >/dev/null) || { echo "make gpu: nothing was measured: ${reason#bitnet-autotune: gpu memory: }" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
card=$("$bin" gpu memory | sed -n 1p | sed 's/  *GPU-.*//; s/[^A-Za-z0-9]\+/-/g; s/-$//' | tr A-Z a-z)
out=experiments/$(date +%Y-%m-%d)-gpu-$card
mkdir -p "$out"
failed=0
missed=()

# step NAME COMMAND...: its output in NAME.txt, and whether it passed in the summary
step() {
	local name=$1
	shift
	echo "make gpu: $name"
	local code=0
	"$@" >"$out/$name.txt" 2>&1 || code=$?
	case $name:$code in
	*:0) echo "| $name | passed |" ;;
	tune*:3) echo "| $name | inconclusive, see $name.txt |" ;;
	*) echo "| $name | **failed**, see $name.txt |" && failed=1 ;;
	esac >>"$work/steps"
}

assemble() {
	local file arch name code=0
	for file in cuda/kernels/ptx/*.ptx.gz; do
		name=$(basename "$file" .ptx.gz) arch=${file##*.sm_}
		arch=sm_${arch%.ptx.gz}
		gunzip -c "$file" >"$work/$name.ptx"
		for target in "$arch" sm_80 sm_90; do
			echo "== $name for $target"
			ptxas -v -arch="$target" -o /dev/null "$work/$name.ptx" || { [ "$target" = sm_61 ] || code=1; }
		done
	done
	return $code
}

if command -v ptxas >/dev/null; then
	step ptxas assemble
else
	missed+=("ptxas is not installed: the driver's own compiler took the PTX instead")
fi
step conformance env BITNET_AUTOTUNE_REQUIRE=cuda go test ./cuda/kernels -count 1 -v -timeout 30m -run TestKernelsOnThisMachinesGPU -full
step allocator env BITNET_AUTOTUNE_REQUIRE=cuda go test ./cuda/memory -count 1 -v -run TestMemoryOnThisMachinesGPU
if command -v compute-sanitizer >/dev/null; then
	go test -c -o "$work/kernels.test" ./cuda/kernels
	for tool in memcheck racecheck; do
		step "$tool" env -C cuda/kernels BITNET_AUTOTUNE_REQUIRE=cuda compute-sanitizer --tool "$tool" --error-exitcode 9 "$work/kernels.test" -test.short -test.run TestKernelsOnThisMachinesGPU
	done
else
	missed+=("compute-sanitizer is not installed: no memory checker ran")
fi
step list "$bin" gpu list --format json
step memory "$bin" gpu memory --model "$model" --format json
step bench "$bin" --quiet gpu bench --all --format json
step tune "$bin" --quiet --store "$work/store" tune --model "$model" --target auto --budget "$budget" --format json
step tune-cuda "$bin" --quiet --store "$work/store" tune --model "$model" --target cuda --budget "$budget"
step config "$bin" --store "$work/store" config --model "$model"

{
	echo "# What does this card measure?"
	echo
	echo "$(date +%Y-%m-%d), commit $(git rev-parse --short HEAD), model $model, budget $budget. Made by \`make gpu\`."
	echo
	echo "| step | outcome |"
	echo "|:--|:--|"
	cat "$work/steps"
	echo
	for line in ${missed[@]+"${missed[@]}"}; do echo "Not done: $line."; done
	echo "Not measured: wgmma kernels (there are none), several cards at once."
} >"$out/README.md"
echo "make gpu: results in $out"
exit $failed
