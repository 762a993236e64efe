package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind is a kind of hardware.
type Kind string

// The kinds that the matrix knows. This project itself finds and runs CUDA and CPU; the others are there for the
// descriptions of other machines.
const (
	CUDA     Kind = "cuda"
	MPS      Kind = "mps"
	ROCm     Kind = "rocm"
	OpenVINO Kind = "openvino"
	WebNN    Kind = "webnn"
	WebGPU   Kind = "webgpu"
	CPU      Kind = "cpu"
)

// Kinds are all kinds, in the order in which they are tried where nothing else decides. The CPU is last: it always does.
var Kinds = []Kind{CUDA, MPS, ROCm, OpenVINO, WebNN, WebGPU, CPU}

// ParseKind returns the kind called name.
func ParseKind(name string) (Kind, error) {
	if k := Kind(strings.ToLower(name)); slices.Contains(Kinds, k) {
		return k, nil
	}
	return "", fmt.Errorf("placement: hardware %q: want one of %s", name, joinKinds(Kinds))
}

// ParseKinds returns the kinds of a list with commas, in its order.
func ParseKinds(list string) ([]Kind, error) {
	var kinds []Kind
	for word := range strings.SplitSeq(list, ",") {
		k, err := ParseKind(strings.TrimSpace(word))
		if err != nil {
			return nil, err
		}
		if !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	return kinds, nil
}

func joinKinds(kinds []Kind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}

// Place is a kind with an index, such as cuda:1. Its zero value is no place in particular.
type Place struct {
	Kind  Kind
	Index int
}

// String returns "cuda:1"; the CPU is only one, "cpu".
func (p Place) String() string {
	if p.Kind == CPU {
		return string(CPU)
	}
	return fmt.Sprintf("%s:%d", p.Kind, p.Index)
}

// ParsePlace parses what String returns; without an index it is 0.
func ParsePlace(text string) (Place, error) {
	name, number, indexed := strings.Cut(text, ":")
	kind, err := ParseKind(name)
	if err != nil {
		return Place{}, err
	}
	if !indexed {
		return Place{Kind: kind}, nil
	}
	index, err := strconv.Atoi(number)
	if err != nil || index < 0 || kind == CPU && index > 0 {
		return Place{}, fmt.Errorf("placement: device %q: want a kind with an index from 0, such as cuda:1, or cpu", text)
	}
	return Place{Kind: kind, Index: index}, nil
}
