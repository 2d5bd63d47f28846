package resp

import (
	"strings"
	"time"
)

// ChangesConnection reports whether a command, or its subcommand sub, changes
// the state of the connection for later commands, or has no or several replies.
// Names are in upper case.
func ChangesConnection(name, sub string) bool {
	switch name {
	case "SELECT", "AUTH", "HELLO", "RESET", "QUIT", "MONITOR", "SYNC", "PSYNC", "REPLCONF",
		"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE",
		"MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH", "ASKING", "READONLY", "READWRITE":
		return true
	case "CLIENT":
		switch sub {
		case "REPLY", "TRACKING", "CACHING", "SETNAME", "SETINFO", "NO-EVICT", "NO-TOUCH", "CAPA", "IMPORT-SOURCE":
			return true
		}
	case "SCRIPT":
		return sub == "DEBUG"
	}
	return false
}

// Quick reports whether a command never waits at the server and has a small
// reply if its values are small. Such a command may share a connection with
// others. The name is in upper case. Unknown commands are not quick.
func Quick(name string) bool {
	switch name {
	case "GET", "SET", "SETEX", "PSETEX", "SETNX", "GETSET", "GETDEL", "GETEX", "APPEND", "STRLEN", "GETRANGE", "SETRANGE",
		"INCR", "INCRBY", "INCRBYFLOAT", "DECR", "DECRBY", "SETBIT", "GETBIT", "BITCOUNT",
		"DEL", "UNLINK", "EXISTS", "TOUCH", "TYPE", "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME",
		"EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "PERSIST", "RENAME", "RENAMENX",
		"HGET", "HSET", "HSETNX", "HMGET", "HMSET", "HDEL", "HEXISTS", "HLEN", "HSTRLEN", "HINCRBY", "HINCRBYFLOAT",
		"LPUSH", "RPUSH", "LPUSHX", "RPUSHX", "LPOP", "RPOP", "LLEN", "LINDEX", "LSET", "LMOVE", "RPOPLPUSH",
		"SADD", "SREM", "SISMEMBER", "SMISMEMBER", "SCARD", "SPOP",
		"ZADD", "ZREM", "ZSCORE", "ZMSCORE", "ZCARD", "ZCOUNT", "ZRANK", "ZREVRANK", "ZINCRBY", "PFADD", "PFCOUNT",
		"PUBLISH", "SPUBLISH", "PING", "ECHO", "TIME", "DBSIZE", "EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO":
		return true
	}
	return false
}

// ReadsOnly reports whether a command changes nothing, so that it can safely be
// sent twice. The name is in upper case.
func ReadsOnly(name string) bool {
	switch name {
	case "GET", "MGET", "STRLEN", "GETRANGE", "EXISTS", "TYPE", "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME",
		"HGET", "HMGET", "HGETALL", "HKEYS", "HVALS", "HLEN", "HEXISTS", "HSTRLEN", "HSCAN",
		"LLEN", "LRANGE", "LINDEX", "SCARD", "SISMEMBER", "SMISMEMBER", "SMEMBERS", "SSCAN",
		"ZSCORE", "ZMSCORE", "ZCARD", "ZCOUNT", "ZRANK", "ZRANGE", "ZSCAN",
		"PING", "ECHO", "TIME", "INFO", "DBSIZE", "SCAN", "KEYS", "EVAL_RO", "EVALSHA_RO":
		return true
	}
	return false
}

// AppendEval appends the call of a script: name is EVAL and script its text, or
// name is EVALSHA and script its digest. On error it returns dst unchanged.
func AppendEval(dst []byte, name, script string, keys []string, args []any) ([]byte, error) {
	out := AppendEvalHead(dst, name, script, 3+len(keys)+len(args))
	out = appendIntArg(out, int64(len(keys)))
	for _, k := range keys {
		out = AppendString(out, k)
	}
	var err error
	for _, a := range args {
		if out, err = AppendArg(out, a); err != nil {
			return dst, err
		}
	}
	return out, nil
}

// AppendEvalHead appends the part of a call before the number of keys. argc is
// the number of all arguments.
func AppendEvalHead(dst []byte, name, script string, argc int) []byte {
	dst = AppendArray(dst, argc)
	dst = AppendString(dst, name)
	return AppendString(dst, script)
}

// AppendGet appends a GET.
func AppendGet(dst []byte, key string) []byte {
	dst = append(dst, "*2\r\n$3\r\nGET\r\n"...)
	return AppendString(dst, key)
}

// AppendSetHead appends the part of a SET before the value. The value and
// [AppendLife] follow.
func AppendSetHead(dst []byte, key string, ttl time.Duration) []byte {
	n := 3
	if ttl > 0 {
		n = 5
	}
	dst = AppendArray(dst, n)
	dst = append(dst, "$3\r\nSET\r\n"...)
	return AppendString(dst, key)
}

// AppendLife appends the part of a SET after the value: the life in whole
// milliseconds, rounded up. Zero means no expiry.
func AppendLife(dst []byte, ttl time.Duration) []byte {
	if ttl <= 0 {
		return dst
	}
	// A life below a millisecond must not become PX 0, which servers refuse.
	dst = append(dst, "$2\r\nPX\r\n"...)
	return appendIntArg(dst, int64((ttl-1)/time.Millisecond+1))
}

// CutCommand returns the first command of text, its name, and the rest. This
// package has appended the commands.
func CutCommand(text []byte) (command []byte, name string, rest []byte) {
	v, rest := parse(text)
	for e := range v.Elems() {
		name = string(e.Bytes())
		break
	}
	return text[:len(text)-len(rest)], name, rest
}

// Published is a reply or message that a server sends to a subscriber.
type Published struct {
	// Ack: Channel, which may be a pattern, was subscribed. Ended: its
	// subscription has ended. Message: Channel and Payload hold a message, and
	// Pattern the subscribed pattern that it matches, if any.
	Ack, Ended, Message       bool
	Pattern, Channel, Payload []byte
}

// Published parses a reply or message to a subscriber: an array in RESP2, a
// push in RESP3. For other values, such as the reply to a PING, it returns the
// zero Published.
func (v Value) Published() (Published, error) {
	if v.kind != Array && v.kind != Push {
		return Published{}, nil
	}
	var part [4]Value
	i := 0
	for e := range v.Elems() {
		if i < len(part) {
			part[i] = e
		}
		i++
	}
	texts := 2 // after the first word
	switch string(part[0].Bytes()) {
	case "subscribe", "psubscribe", "ssubscribe":
		return Published{Ack: true, Channel: part[1].Bytes()}, nil
	case "unsubscribe", "punsubscribe", "sunsubscribe":
		return Published{Ended: true, Channel: part[1].Bytes()}, nil
	case "message", "smessage":
	case "pmessage":
		texts = 3
	default:
		return Published{}, nil
	}
	// The channel decides who gets the message: in another shape, the parts may stand for other
	// things.
	for _, e := range part[1 : texts+1] {
		if i != texts+1 || e.kind != Bulk {
			return Published{}, broken("message of a wrong shape")
		}
	}
	p := Published{Message: true, Channel: part[texts-1].body, Payload: part[texts].body}
	if texts == 3 {
		p.Pattern = part[1].body
	}
	return p, nil
}

// Greeting is the state that a new connection is given.
type Greeting struct {
	// Username may be empty if Password is not. A user may have no password.
	Username, Password string
	// Name, if not empty, is the name of the connection.
	Name string
	// DB is the number of the database.
	DB int
	// Protocol is 2 or 3, or zero for 3 with a fallback to 2.
	Protocol int
}

// Do sends the commands of the greeting: HELLO for RESP3, or the commands of
// RESP2 if Protocol is 2, or if Protocol is 0 and the server refuses HELLO. ask
// sends a command and returns the reply; Do returns its errors. refused is the
// server's error text, without credentials, if it refused a command.
func (g Greeting) Do(ask func(args ...any) (Value, error)) (refused string, err error) {
	if g.Protocol == 2 {
		refused, err = g.do2(ask)
	} else if refused, err = g.do3(ask); refused != "" && noHello(refused) && g.Protocol == 0 {
		refused, err = g.do2(ask)
	}
	if refused == "" && err == nil && g.DB != 0 {
		refused, err = g.demand(ask, "SELECT", g.DB)
	}
	return refused, err
}

// do3 greets with HELLO.
func (g Greeting) do3(ask func(args ...any) (Value, error)) (refused string, err error) {
	hello := []any{"HELLO", "3"}
	if g.Username+g.Password != "" {
		user := g.Username
		// HELLO wants a name with each password. This is the user of a password alone.
		if user == "" {
			user = "default"
		}
		hello = append(hello, "AUTH", user, g.Password)
	}
	if g.Name != "" {
		hello = append(hello, "SETNAME", g.Name)
	}
	return g.demand(ask, hello...)
}

// noHello reports whether a server refused HELLO because it does not know the
// command, or does not allow it to this user.
func noHello(refused string) bool {
	code, text, _ := strings.Cut(refused, " ")
	return code == "NOPROTO" || code == "NOPERM" ||
		code == "ERR" && !strings.HasPrefix(text, "max number of clients")
}

// do2 greets without HELLO.
func (g Greeting) do2(ask func(args ...any) (Value, error)) (refused string, err error) {
	if g.Username+g.Password != "" {
		auth := []any{"AUTH", g.Password}
		if g.Username != "" {
			auth = []any{"AUTH", g.Username, g.Password}
		}
		refused, err = g.demand(ask, auth...)
	}
	if refused == "" && err == nil && g.Name != "" {
		// The name is optional: a server without names is accepted.
		_, err = g.demand(ask, "CLIENT", "SETNAME", g.Name)
	}
	return refused, err
}

// demand sends a command and returns the server's error text. Credentials are
// removed from it, because some servers repeat an unknown command. A reply of
// another kind than the command has is a protocol error.
func (g Greeting) demand(ask func(args ...any) (Value, error), args ...any) (refused string, err error) {
	v, err := ask(args...)
	hello := args[0] == "HELLO"
	switch kind := v.Kind(); {
	case err != nil:
		return "", err
	case kind == Status && !hello, (kind == Map || kind == Array) && hello:
		return "", nil
	case kind != Error:
		return "", broken("not an answer to the greeting")
	}
	refused = string(v.Bytes())
	for _, secret := range []string{g.Password, g.Username} {
		if secret != "" {
			refused = strings.ReplaceAll(refused, secret, "***")
		}
	}
	if refused == "" {
		refused = "ERR"
	}
	return refused, nil
}
