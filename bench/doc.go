// Package bench holds benchmarks of strata beside its peers. The tables of
// the README come from the commands below cmd; all numbers are ratios of
// medians from interleaved runs, because absolute times mean nothing on a
// shared machine.
//
//	go run ./bench/cmd/matrix                  libraries when things go wrong
//	go run ./bench/cmd/tiers                   Redis only, local only, tiered
//	go run ./bench/cmd/stampede                1000 callers, one expired key
//	go run ./bench/cmd/inproc hits             reads from in-process caches
//	go run ./bench/cmd/inproc mix              reads and writes in them
//	go run ./bench/cmd/inproc misses           loads, changes, many keys
//	go run ./bench/cmd/inproc article          1 M structs: time and memory
//	go run ./bench/cmd/inproc hitratio -traces DIR   their share of hits
//	go run ./bench/cmd/inproc gc               the collector, bytes of an entry
//	go run ./bench/cmd/inproc storm            hostile keys and crowds
//	cd bench && go test -run '^$' -bench Hit   a hit of GetOrLoad
//	cd bench && go test -run '^$' -bench L2 -benchtime 40x   the cost of a tier over a GET
//	cd bench && go test -run '^$' -bench Wire -benchtime 20x -timeout 1h ./wire   clients of Redis
//	cd bench && go test -run '^$' -bench Memcached -benchtime 20x -timeout 1h ./wire   clients of memcached
//
// Those that need a Redis server or memcached start one of their own and stop it.
package bench
