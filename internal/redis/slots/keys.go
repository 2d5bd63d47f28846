package slots

import (
	"strconv"
	"strings"
)

// FirstKey returns the position of a command's first key among its arguments,
// or 0 if it has none. The name, in upper case, is argument 0; arg returns the
// text of one of the n arguments. For an unknown command the first argument
// counts as the key.
//
// The channel of PUBLISH counts as its key. So all messages of a channel take
// one route and keep their order.
func FirstKey(name string, n int, arg func(i int) string) int {
	at := 1
	switch name {
	case "PING", "ECHO", "TIME", "INFO", "ROLE", "DBSIZE", "SCAN", "KEYS", "RANDOMKEY", "FLUSHALL", "FLUSHDB",
		"CONFIG", "CLIENT", "COMMAND", "CLUSTER", "ACL", "SCRIPT", "FUNCTION", "PUBSUB", "MODULE", "SENTINEL",
		"WAIT", "WAITAOF", "LATENCY", "SLOWLOG", "DEBUG", "LOLWUT", "SWAPDB",
		"SAVE", "BGSAVE", "BGREWRITEAOF", "LASTSAVE", "SHUTDOWN", "REPLICAOF", "SLAVEOF", "FAILOVER":
		return 0
	case "OBJECT", "XINFO", "XGROUP", "BITOP", "MEMORY":
		at = 2
	case "EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO", "BLMPOP", "BZMPOP":
		return counted(2, n, arg)
	case "LMPOP", "ZMPOP", "SINTERCARD", "ZINTERCARD", "ZUNION", "ZINTER", "ZDIFF":
		return counted(1, n, arg)
	case "XREAD", "XREADGROUP":
		return behind("STREAMS", n, arg)
	case "MIGRATE":
		if n > 3 && arg(3) == "" {
			return behind("KEYS", n, arg)
		}
		at = 3
	}
	if at >= n {
		return 0
	}
	return at
}

// counted returns the position after the number of keys at position at, or 0 if
// that number is not positive.
func counted(at, n int, arg func(int) string) int {
	if at+1 < n {
		if keys, err := strconv.Atoi(arg(at)); err == nil && keys > 0 {
			return at + 1
		}
	}
	return 0
}

// behind returns the position after a word, or 0 if the word is missing.
func behind(word string, n int, arg func(int) string) int {
	for i := 1; i+1 < n; i++ {
		if strings.EqualFold(arg(i), word) {
			return i + 1
		}
	}
	return 0
}

// Splits reports whether a command on several keys can be split because it does
// the same for each, and the number of arguments per key.
func Splits(name string) (step int, ok bool) {
	switch name {
	case "MGET", "DEL", "UNLINK", "EXISTS", "TOUCH":
		return 1, true
	case "MSET":
		return 2, true
	}
	return 0, false
}
