package main

import "golang.org/x/sys/unix"

// limitMemory makes the kernel refuse this process more private memory.
func limitMemory(bytes int64) error {
	return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)})
}
