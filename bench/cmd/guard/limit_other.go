//go:build !linux

package main

import "errors"

// limitMemory makes the kernel refuse this process more private memory.
func limitMemory(int64) error { return errors.New("a hard limit needs Linux: use -hard 0") }
