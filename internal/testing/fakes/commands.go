package fakes

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
)

func (s *Redis) addCommands() {
	for name, h := range map[string]RedisHandler{
		"HELLO": hello, "AUTH": auth, "SELECT": selectDB, "CLIENT": client, "PING": ping, "ECHO": echo,
		"GET": get, "SET": set, "DEL": del, "PTTL": pttl, "INCR": incr, "MGET": mget, "EXISTS": exists,
		"SUBSCRIBE": subscribe, "PSUBSCRIBE": subscribe, "SSUBSCRIBE": subscribe,
		"UNSUBSCRIBE": unsubscribe, "PUBLISH": publish, "SPUBLISH": publish, "PERSIST": persist,
		"EVAL": eval, "EVALSHA": evalsha,
		"MULTI": multi, "EXEC": exec, "DISCARD": discard, "WATCH": watch, "UNWATCH": unwatch,
	} {
		s.handlers[name] = h
	}
}

func hello(s *RedisSession, args [][]byte) {
	if s.srv.Old {
		s.unknown(args)
		return
	}
	for i := 2; i < len(args); i++ {
		switch strings.ToUpper(string(args[i])) {
		case "AUTH":
			if !s.login(string(args[i+1]), string(args[i+2])) {
				return
			}
			i += 2
		case "SETNAME":
			s.Name = string(args[i+1])
			i++
		}
	}
	if s.srv.Password != "" && !s.authed {
		s.Error("NOAUTH HELLO must be called with the client already authenticated")
		return
	}
	s.RESP3 = string(args[1]) == "3"
	s.Out = resp.AppendMap(s.Out, 2)
	s.Bulk("server")
	s.Bulk("redis")
	s.Bulk("proto")
	s.Int(3)
}

func auth(s *RedisSession, args [][]byte) {
	user := "default"
	if len(args) == 3 {
		user = string(args[1])
	}
	if s.login(user, string(args[len(args)-1])) {
		s.Status("OK")
	}
}

func (s *RedisSession) login(user, password string) bool {
	want := s.srv.Username
	if want == "" {
		want = "default"
	}
	s.authed = user == want && password == s.srv.Password
	if !s.authed {
		s.Error("WRONGPASS invalid username-password pair: " + user + " " + password)
	}
	return s.authed
}

func selectDB(s *RedisSession, args [][]byte) {
	n, err := strconv.Atoi(string(args[1]))
	if err != nil || n > 15 {
		s.Error("ERR DB index is out of range")
		return
	}
	s.DB = n
	s.Status("OK")
}

func client(s *RedisSession, args [][]byte) {
	switch strings.ToUpper(string(args[1])) {
	case "SETNAME":
		s.Name = string(args[2])
		s.Status("OK")
	case "GETNAME":
		s.Bulk(s.Name)
	default:
		s.unknown(args)
	}
}

func ping(s *RedisSession, _ [][]byte) {
	s.srv.mu.Lock()
	subscribed := len(s.subs) > 0
	s.srv.mu.Unlock()
	if subscribed && !s.RESP3 {
		s.Out = resp.AppendArray(s.Out, 2)
		s.Bulk("pong")
		s.Bulk("")
		return
	}
	s.Status("PONG")
}

func echo(s *RedisSession, args [][]byte) { s.Bulk(string(args[1])) }

// db returns the session's database after removing expired entries. srv.mu is
// held.
func (s *RedisSession) db() map[string]entry {
	db := s.srv.dbs[s.DB]
	if db == nil {
		db = map[string]entry{}
		s.srv.dbs[s.DB] = db
	}
	now := time.Now()
	for k, e := range db {
		if !e.expires.IsZero() && !now.Before(e.expires) {
			delete(db, k)
		}
	}
	return db
}

func (s *RedisSession) look(key []byte) (entry, bool) {
	s.srv.mu.Lock()
	defer s.srv.mu.Unlock()
	e, ok := s.db()[string(key)]
	return e, ok
}

func get(s *RedisSession, args [][]byte) {
	if e, ok := s.look(args[1]); ok {
		s.Bulk(e.value)
		return
	}
	s.Null()
}

func mget(s *RedisSession, args [][]byte) {
	s.Out = resp.AppendArray(s.Out, len(args)-1)
	for _, k := range args[1:] {
		get(s, [][]byte{nil, k})
	}
}

func set(s *RedisSession, args [][]byte) {
	e := entry{value: string(args[2])}
	onlyNew := false
	for i := 3; i < len(args); i++ {
		switch strings.ToUpper(string(args[i])) {
		case "NX":
			onlyNew = true
		case "PX":
			ms, _ := strconv.Atoi(string(args[i+1]))
			e.expires = time.Now().Add(time.Duration(ms) * time.Millisecond)
			i++
		}
	}
	s.srv.mu.Lock()
	db := s.db()
	_, held := db[string(args[1])]
	if !onlyNew || !held {
		db[string(args[1])] = e
	}
	s.srv.mu.Unlock()
	if onlyNew && held {
		s.Null()
		return
	}
	s.Status("OK")
}

func del(s *RedisSession, args [][]byte) {
	n := 0
	s.srv.mu.Lock()
	db := s.db()
	for _, k := range args[1:] {
		if _, ok := db[string(k)]; ok {
			n++
			delete(db, string(k))
		}
	}
	s.srv.mu.Unlock()
	s.Int(n)
}

func exists(s *RedisSession, args [][]byte) {
	n := 0
	for _, k := range args[1:] {
		if _, ok := s.look(k); ok {
			n++
		}
	}
	s.Int(n)
}

func pttl(s *RedisSession, args [][]byte) {
	e, ok := s.look(args[1])
	switch {
	case !ok:
		s.Int(-2)
	case e.expires.IsZero():
		s.Int(-1)
	default:
		s.Int(int(time.Until(e.expires).Milliseconds()))
	}
}

func incr(s *RedisSession, args [][]byte) {
	s.srv.mu.Lock()
	db := s.db()
	e := db[string(args[1])]
	n, err := strconv.Atoi("0" + e.value)
	if err == nil {
		e.value = strconv.Itoa(n + 1)
		db[string(args[1])] = e
	}
	s.srv.mu.Unlock()
	if err != nil {
		s.Error("ERR value is not an integer or out of range")
		return
	}
	s.Int(n + 1)
}

func (s *RedisSession) pushHeader(dst []byte, n int) []byte {
	if s.RESP3 {
		return resp.AppendPush(dst, n)
	}
	return resp.AppendArray(dst, n)
}

// subscribe handles SUBSCRIBE, PSUBSCRIBE and SSUBSCRIBE. It keeps a
// subscription under "s:", "ps:" or "ss:" and the channel or pattern.
func subscribe(s *RedisSession, args [][]byte) {
	name := strings.ToLower(string(args[0]))
	kind := strings.TrimSuffix(name, "ubscribe")
	for _, ch := range args[1:] {
		s.srv.mu.Lock()
		s.subs[kind+":"+string(ch)] = true
		n := len(s.subs)
		s.srv.mu.Unlock()
		s.Out = s.pushHeader(s.Out, 3)
		s.Bulk(name)
		s.Bulk(string(ch))
		s.Int(n)
	}
}

func unsubscribe(s *RedisSession, args [][]byte) {
	for _, ch := range args[1:] {
		s.srv.mu.Lock()
		delete(s.subs, "s:"+string(ch))
		n := len(s.subs)
		s.srv.mu.Unlock()
		s.Out = s.pushHeader(s.Out, 3)
		s.Bulk("unsubscribe")
		s.Bulk(string(ch))
		s.Int(n)
	}
}

// persist handles PERSIST as for a key without a life.
func persist(s *RedisSession, _ [][]byte) { s.Int(0) }

func publish(s *RedisSession, args [][]byte) {
	if strings.EqualFold(string(args[0]), "SPUBLISH") {
		s.Int(s.srv.deliver("ss:"+string(args[1]), "smessage", string(args[1]), string(args[2])))
		return
	}
	s.Int(s.srv.Publish(string(args[1]), string(args[2])))
}

// Publish sends a message to the subscribers of a channel, and of the patterns
// that match it, and returns their number.
func (s *Redis) Publish(channel, payload string) int {
	n := s.deliver("s:"+channel, "message", channel, payload)
	for _, p := range s.patterns() {
		if ok, _ := path.Match(p, channel); ok {
			n += s.deliver("ps:"+p, "pmessage", p, channel, payload)
		}
	}
	return n
}

func (s *Redis) patterns() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ss := range s.open {
		for sub := range ss.subs {
			if p, ok := strings.CutPrefix(sub, "ps:"); ok && !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	return all
}

// deliver sends words to all subscribers of sub, and returns their number.
func (s *Redis) deliver(sub string, words ...string) int {
	s.mu.Lock()
	var to []*RedisSession
	for ss := range s.open {
		if ss.subs[sub] {
			to = append(to, ss)
		}
	}
	s.mu.Unlock()
	for _, ss := range to {
		msg := ss.pushHeader(nil, len(words))
		for _, w := range words {
			msg = resp.AppendString(msg, w)
		}
		_ = ss.send(msg) // serve handles a closed connection
	}
	return len(to)
}

// endSharded ends the subscriptions to sharded channels for which gone returns
// true.
func (s *Redis) endSharded(gone func(channel string) bool) {
	s.mu.Lock()
	ended := map[*RedisSession][]byte{}
	for ss := range s.open {
		for sub := range ss.subs {
			if ch, ok := strings.CutPrefix(sub, "ss:"); ok && gone(ch) {
				delete(ss.subs, sub)
				msg := ss.pushHeader(ended[ss], 3)
				msg = resp.AppendString(msg, "sunsubscribe")
				msg = resp.AppendString(msg, ch)
				ended[ss] = resp.AppendInt(msg, int64(len(ss.subs)))
			}
		}
	}
	s.mu.Unlock()
	for ss, msg := range ended {
		_ = ss.send(msg) // as above
	}
}

func eval(s *RedisSession, args [][]byte) {
	s.srv.mu.Lock()
	h := s.srv.scripts[string(args[1])]
	if h != nil {
		s.srv.known[digest(string(args[1]))] = h
	}
	s.srv.mu.Unlock()
	if h == nil {
		s.Error("ERR Error compiling script")
		return
	}
	h(s, slices.Clone(args[3:]))
}

func evalsha(s *RedisSession, args [][]byte) {
	s.srv.mu.Lock()
	h := s.srv.known[string(args[1])]
	s.srv.mu.Unlock()
	if h == nil {
		s.Error("NOSCRIPT No matching script. Please use EVAL.")
		return
	}
	h(s, slices.Clone(args[3:]))
}
