// Package placement joins what a host can do with what a model needs.
package placement
