/*
Package memory manages the memory of GPUs: what a device has, what may be taken of it, and the workspace of a matmul.
*/
package memory
