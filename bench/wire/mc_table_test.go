package wire

import "strconv"

// memcachedTables returns all tables of memcached.
func memcachedTables() []table {
	const large = 64 << 10
	all := []table{{
		path: "sequential", title: "one goroutine, server and client on a processor each",
		goroutines: 1, pinned: true,
		cases: []scenario{read(16), write(16), read(1 << 10), write(1 << 10), read(large), write(large)},
	}}
	for _, n := range []int{8, maxGoroutines} {
		all = append(all, table{
			path: "parallel/" + strconv.Itoa(n), title: strconv.Itoa(n) + " goroutines", goroutines: n,
			cases: []scenario{read(16), write(16), read(1 << 10), write(1 << 10), read(large)},
		})
	}
	const hundred = 100
	many := table{path: "many", title: "100 keys, a call being all of it", goroutines: 1}
	for _, size := range []int{16, 64, 1 << 10} {
		many.cases = append(many.cases, scenario{name: "GET100-", op: mget, each: hundred, size: size})
	}
	for _, size := range []int{16, 64, 1 << 10} {
		many.cases = append(many.cases, scenario{name: "SET100-", op: setAll, stores: true, each: hundred, size: size})
	}
	stream := table{
		path: "stream", title: "values to an io.Writer and from an io.Reader", goroutines: 1, growth: true,
	}
	for _, size := range []int{256 << 10, 4 << 20, 16 << 20} {
		stream.cases = append(stream.cases,
			scenario{name: "GET-", op: getTo, each: 1, size: size},
			scenario{name: "SET-", op: setFrom, stores: true, each: 1, size: size})
	}
	article := table{
		path: "article", title: "the article's Set and Get of one key, server and client on a processor each",
		goroutines: 1, pinned: true,
		cases: []scenario{{name: "SET+GET-", op: setGet, stores: true, each: 1, size: 4}},
	}
	return complete(append(all, many, stream, article))
}
