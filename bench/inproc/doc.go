// Package inproc compares package memory, and strata.Cache without L2, with the
// in-process caches of Go and with maps under locks. A table a command:
//
//	go run ./bench/cmd/inproc hits                   reads of entries that exist
//	go run ./bench/cmd/inproc mix                    reads and writes, Zipf 0.99 over 1 M keys
//	go run ./bench/cmd/inproc misses                 loaders, many keys, updates, invalidations
//	go run ./bench/cmd/inproc article                1 M structs, 10 % and 0.1 % writes, memory
//	go run ./bench/cmd/inproc hitratio -traces DIR   the share of hits on traces
//	go run ./bench/cmd/inproc bytes -traces DIR      the same of caches of bytes with the same memory
//	go run ./bench/cmd/inproc gc                     the collector's time, bytes of an entry
//	go run ./bench/cmd/inproc storm                  hostile keys and crowds against benign ones
//
// With -short each is a quick look of less than half a minute; -rounds and
// -slice say how much is measured, and -benchstat FILE writes each round as
// lines that benchstat reads (not of hitratio, bytes and gc).
//
// # How it is measured
//
// All peers of a cell take turns of 40 ms, in rounds that begin with another one
// each time, so that a disturbance of the machine reaches all. Tables have the
// medians of the rounds; wall time is the time of a turn divided by its
// operations, all goroutines together, and CPU is the time of the whole process,
// with the background work of a cache and the collector, divided in the same
// way. A spread is half of the middle half of the rounds. A ratio is the median
// of strata divided by the median of the peer: below 1 strata is ahead.
//
// Operations go through one interface, for a few hundred at a time; the loop
// over them is in each adapter, with calls as a user would write them. Keys are
// read in the order in which they lie in memory, and strings are not the same
// memory as those in the cache, as with keys that come with requests.
//
// Maps have neither bound nor TTL; they are there as a floor. A cache is made
// with the same capacity as all others, entries that weigh 1, and otherwise the
// settings that its manual recommends. "ttl" tables have a TTL of an hour that begins
// with a write.
//
// # Missing peers
//
// The tables have the peers that the module proxy lists. It does not list
// github.com/elastic/go-freelru, github.com/scalalang2/golang-fifo,
// github.com/bool64/cache, github.com/phuslu/lru and
// github.com/karlseguin/ccache. In the table of the article, 128 maps of any
// stand in for bool64/cache, which is such maps with more around them.
package inproc
