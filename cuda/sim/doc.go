/*
Package sim is a machine with GPUs in Go: the CUDA driver's table of functions over simulated devices, for tests.
*/
package sim
