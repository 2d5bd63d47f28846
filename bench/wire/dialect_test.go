package wire

import (
	"fmt"
	"strconv"
)

var redisDialect = dialect{ // read-only
	get:  func(key string) []byte { return command("GET", key) },
	head: header,
	put: func(key string, size int) []byte {
		return append([]byte("*3\r\n$3\r\nSET\r\n"+bulk(key)), header(size)...)
	},
	ok: ok,
	getMany: func(j *job) (commands, head []byte, n int) {
		one := header(j.size)
		head = append([]byte("*"+strconv.Itoa(len(j.keys))+"\r\n"), one...)
		n = len(head) - len(one) + len(j.keys)*(len(one)+j.size+2)
		return command(append([]string{"MGET"}, j.keys...)...), head, n
	},
	putMany: func(j *job) (commands, head []byte, n int) {
		for k, key := range j.keys {
			commands = append(commands, command("SET", key, string(j.value(k)))...)
		}
		return commands, []byte(ok), len(j.keys) * len(ok)
	},
}

const ok = "+OK\r\n"

// command is the bytes of a command.
func command(args ...string) []byte {
	b := []byte("*" + strconv.Itoa(len(args)) + "\r\n")
	for _, a := range args {
		b = append(b, bulk(a)...)
	}
	return b
}

func bulk(s string) string { return string(header(len(s))) + s + "\r\n" }

// header goes before a string of n bytes.
func header(n int) []byte { return []byte("$" + strconv.Itoa(n) + "\r\n") }

// memcachedDialect uses the fastest commands of the server: meta commands, a get of
// many keys, and quiet commands.
var memcachedDialect = dialect{ // read-only
	get:  func(key string) []byte { return []byte("mg " + key + " v\r\n") },
	head: func(size int) []byte { return fmt.Appendf(nil, "VA %d\r\n", size) },
	put:  func(key string, size int) []byte { return fmt.Appendf(nil, "ms %s %d\r\n", key, size) },
	ok:   "HD\r\n",
	getMany: func(j *job) (commands, head []byte, n int) {
		commands, n = []byte("get"), len("END\r\n")
		for _, key := range j.keys {
			commands = append(append(commands, ' '), key...)
			n += len(fmt.Sprintf("VALUE %s 0 %d\r\n", key, j.size)) + j.size + 2
		}
		return append(commands, "\r\n"...), []byte("VALUE " + j.keys[0]), n
	},
	putMany: func(j *job) (commands, head []byte, n int) {
		for k, key := range j.keys {
			commands = fmt.Appendf(commands, "ms %s %d q\r\n%s\r\n", key, j.size, j.value(k))
		}
		head = []byte("MN\r\n")
		return append(commands, "mn\r\n"...), head, len(head)
	},
}
