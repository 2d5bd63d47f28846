// Package wire compares clients of Redis, and clients of memcached: our own, its peers,
// and a floor, which is a connection without a client that knows every byte that comes. All
// take turns in short slices on a server that the benchmark starts, in rounds
// that begin with another one each time; ratios are taken within a round, and
// medians are given with their quartiles. A table a command:
//
//	go test -run '^$' -bench Wire/sequential -benchtime 20x ./wire
//	go test -run '^$' -bench Wire/parallel -benchtime 20x -timeout 1h ./wire
//	go test -run '^$' -bench Wire/pipeline -benchtime 20x ./wire
//	go test -run '^$' -bench Wire/stream -benchtime 20x ./wire
//	go test -run '^$' -bench Wire/redjet -benchtime 20x ./wire
//	go test -run '^$' -bench Memcached/sequential -benchtime 20x ./wire
//	go test -run '^$' -bench Memcached/parallel -benchtime 20x ./wire
//	go test -run '^$' -bench Memcached/many -benchtime 20x ./wire
//	go test -run '^$' -bench Memcached/stream -benchtime 20x ./wire
//	go test -run '^$' -bench Memcached/article -benchtime 20x ./wire
//
// The tables of Redis cover TCP and a unix socket, the tables of memcached TCP. The path of a part
// names it, such as Wire/parallel/64/background/unix/GET-64B. The lines of the benchmark have the
// ratios of our own client to the floor and to the best peer; the tables that follow them have all
// subjects.
//
// # How to read them
//
// The best peer is the one with the lowest median in that case; its time stands in bold in place of
// its ratio. CPU is user and system time of this process, bytes and allocations are the allocations
// on its heap, both divided by the calls of a turn; the garbage of others is collected before it.
// The growth of a process is measured in one with nothing but the subject: by how much its memory
// grows while it streams 32 values, after 32 small ones.
//
// In the first table the server has one processor and this process another, where the system allows
// it (the line above the table says so). Without that, the processors on which the two happen to
// run matter more than the client does.
//
// Parallel tables of Redis come with three kinds of context: context.Background; fresh, a
// context.WithTimeout for each call, as handlers have it, with its cost in all rows, the floor's
// too; and held, a cancellable context with a deadline for each goroutine that lasts for all its
// calls.
//
// # Subjects
//
// Clients have their defaults, except that redigo may keep a connection for each goroutine (it
// keeps none unless told) and go-redis keeps to deadlines (it does not unless told). A suffix is
// another way to set up or to call the same client: -buffer reads into a buffer of the caller, -one
// has a single connection for all goroutines, -auto makes pipelines by itself (the client's
// AutoPipeline; in pipelines, its AsyncAutoPipeline), -duplex does so and reads replies while it
// writes (its option FullDuplex), -bytes has all of a value in memory where others stream, and is
// then compared apart.
//
// redjet itself cannot be had: the module proxy refuses github.com/coder/redjet and
// github.com/coadler/redjet. All others play its published method: a pipeline of N GETs of 1 KiB
// with the values discarded. The floor follows it to the letter, and writes all of it before it
// reads.
//
// Of the clients of memcached only our own knows contexts, and all have a long timeout. gomemcache
// keeps two idle connections by default; -tuned keeps one for each goroutine, and so do rainycape
// and grafana, the fork by Grafana. couchbase, of the binary protocol, and by-hand, written as
// programs write such a client for themselves, have a connection for each goroutine. None of them
// has a bulk set: eight goroutines share the sets of -tuned, grafana and rainycape, gomemcache sets
// one key after the other, couchbase sends quiet commands. None streams.
//
// The article's table times a Set and a Get of one key. floor-one-write sends both
// commands at once. strata-two is called by two goroutines, of which one sets and the
// other gets.
package wire
