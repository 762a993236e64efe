/*
Package driver is the CUDA driver API as a table of Go functions.
*/
package driver
