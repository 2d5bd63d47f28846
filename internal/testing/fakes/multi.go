package fakes

import "github.com/strata-cache/strata/internal/redis/resp"

// transaction holds the commands that a session has queued since MULTI.
type transaction struct {
	handlers []RedisHandler
	args     [][][]byte
	aborted  bool
}

func (t *transaction) queue(s *RedisSession, h RedisHandler, args [][]byte) {
	if h == nil {
		t.aborted = true
		s.unknown(args)
		return
	}
	t.handlers = append(t.handlers, h)
	t.args = append(t.args, args)
	s.Status("QUEUED")
}

func multi(s *RedisSession, _ [][]byte) {
	s.tx = &transaction{}
	s.Status("OK")
}

func exec(s *RedisSession, _ [][]byte) {
	t, changed := s.tx, s.changed()
	if t == nil {
		s.Error("ERR EXEC without MULTI")
		return
	}
	s.tx, s.watched = nil, nil
	switch {
	case t.aborted:
		s.Error("EXECABORT Transaction discarded because of previous errors.")
	case changed:
		s.Null()
	default:
		s.Out = resp.AppendArray(s.Out, len(t.handlers))
		for i, h := range t.handlers {
			h(s, t.args[i])
		}
	}
}

func discard(s *RedisSession, _ [][]byte) {
	if s.tx == nil {
		s.Error("ERR DISCARD without MULTI")
		return
	}
	s.tx, s.watched = nil, nil
	s.Status("OK")
}

// changed reports whether a watched key has changed since WATCH.
func (s *RedisSession) changed() bool {
	for k, was := range s.watched {
		if now, _ := s.look([]byte(k)); now != was {
			return true
		}
	}
	return false
}

func watch(s *RedisSession, args [][]byte) {
	if s.watched == nil {
		s.watched = map[string]entry{}
	}
	for _, k := range args[1:] {
		s.watched[string(k)], _ = s.look(k)
	}
	s.Status("OK")
}

func unwatch(s *RedisSession, _ [][]byte) {
	s.watched = nil
	s.Status("OK")
}
