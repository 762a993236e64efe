// Package device decides how a model should run on a host before anything was measured: where, with how many threads,
// how much of a GPU's memory, which batch and which workspace.
package device
