//go:build race

package main

// A single run shows races as well as four do, ten times as slowly.
func init() { seeds = 1 }
