package fakes

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/strata-cache/strata/internal/memcached/meta"
)

// classic carries out a classic command. mu is held.
func (s *Memcached) classic(ss *MemcachedSession, c *meta.Command) {
	switch c.Name {
	case "get", "gets", "gats":
		s.get(ss, c)
	case "set", "add", "replace", "cas", "append", "prepend":
		it := item{value: c.Data, flags: c.ClientFlags, expires: until(c.Expiry)}
		ss.reply(c.NoReply, s.store(c.Name, c.Key, it, c.CAS))
	case "delete":
		_, ok := s.find(c.Key)
		delete(s.items, string(c.Key))
		ss.reply(c.NoReply, choose(ok, "DELETED", "NOT_FOUND"))
	case "touch":
		it, ok := s.find(c.Key)
		if it.expires = until(c.Expiry); ok {
			s.items[string(c.Key)] = it
		}
		ss.reply(c.NoReply, choose(ok, "TOUCHED", "NOT_FOUND"))
	case "incr", "decr":
		text, bad := s.count(c.Key, c.Delta, c.Name == "decr")
		switch {
		case bad != "":
			ss.Line(bad)
		default:
			ss.reply(c.NoReply, choose(text != "", text, "NOT_FOUND"))
		}
	case "flush_all":
		clear(s.items)
		ss.Line("OK")
	case "version":
		ss.Line("VERSION 1.6.99-fake")
	case "stats":
		ss.Line("STAT curr_items " + strconv.Itoa(len(s.items)))
		ss.Line("STAT version 1.6.99-fake")
		ss.Line("STAT time " + strconv.FormatInt(time.Now().Unix(), 10))
		ss.Line("END")
	default:
		ss.Line("ERROR")
	}
}

func choose(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

func (s *MemcachedSession) reply(quiet bool, text string) {
	if !quiet {
		s.Line(text)
	}
}

func (s *Memcached) get(ss *MemcachedSession, c *meta.Command) {
	for _, key := range c.Args {
		it, ok := s.find(key)
		if !ok {
			continue
		}
		cas := it.cas
		if c.Name == "get" {
			cas = 0
		}
		if c.Name == "gats" {
			it.expires = until(c.Expiry)
			s.items[string(key)] = it
		}
		ss.Out = meta.AppendItem(ss.Out, string(key), it.flags, cas, it.value)
	}
	ss.Line("END")
}

// store stores an item by the rules of a command, and returns the classic reply. mu
// is held.
func (s *Memcached) store(name string, key []byte, it item, cas uint64) string {
	own := it.cas
	old, ok := s.find(key)
	switch {
	case name == "add" && ok, name != "set" && name != "add" && name != "cas" && !ok:
		return "NOT_STORED"
	case name == "cas" && !ok:
		return "NOT_FOUND"
	case name == "cas" && old.cas != cas:
		return "EXISTS"
	}
	switch name {
	case "append":
		it, it.value = old, slices.Concat(old.value, it.value)
	case "prepend":
		it, it.value = old, slices.Concat(it.value, old.value)
	}
	if it.cas = own; len(it.value) > s.limit() {
		return "NOT_STORED"
	}
	s.keep(key, it)
	return "STORED"
}

// count adds to a number or subtracts from it. mu is held.
func (s *Memcached) count(key []byte, delta uint64, down bool) (text, bad string) {
	it, ok := s.find(key)
	if !ok {
		return "", ""
	}
	n, err := strconv.ParseUint(string(it.value), 10, 64)
	const mostOfOne = 512 << 10 // a longer item is in several chunks, and memcached takes it for no number
	switch {
	case err != nil, len(it.value) > mostOfOne:
		return "", "CLIENT_ERROR cannot increment or decrement non-numeric value"
	case !down:
		n += delta
	default:
		n -= min(n, delta)
	}
	text = strconv.FormatUint(n, 10)
	it.value, it.cas = []byte(text), 0
	s.keep(key, it)
	return text, ""
}

// meta carries out a meta command. mu is held.
func (s *Memcached) meta(ss *MemcachedSession, c *meta.Command) {
	if s.Generation == V1618 && (c.Flags.Has('E') || c.Name == "md" && c.Flags.Has('x')) {
		ss.Line("CLIENT_ERROR invalid or duplicate flag")
		return
	}
	switch c.Name {
	case "mn":
		ss.Line("MN")
	case "mg":
		s.metaGet(ss, c)
	case "ms":
		s.metaSet(ss, c)
	case "md":
		_, ok := s.find(c.Key)
		delete(s.items, string(c.Key))
		if !c.Flags.Has('q') || !ok && s.Generation == V1618 {
			ss.meta(c, choose(ok, "HD", "NF"))
		}
	case "ma":
		delta := uint64(1)
		if d, ok := c.Flags.Uint('D'); ok {
			delta = d
		}
		mode, _ := c.Flags.Get('M')
		text, bad := s.count(c.Key, delta, string(mode) == "D")
		if token, ok := c.Flags.Get('N'); ok && text == "" && bad == "" {
			life, _ := strconv.ParseInt(string(token), 10, 32)
			first, _ := c.Flags.Uint('J')
			text = strconv.FormatUint(first, 10)
			s.keep(c.Key, item{value: []byte(text), expires: until(life)})
		}
		switch {
		case bad != "":
			ss.Line(bad)
		case text == "":
			ss.meta(c, "NF")
		default:
			ss.metaValue(c, item{value: []byte(text)})
		}
	default:
		ss.Line("ERROR")
	}
}

func (s *Memcached) metaGet(ss *MemcachedSession, c *meta.Command) {
	it, ok := s.find(c.Key)
	if !ok {
		if !c.Flags.Has('q') {
			ss.meta(c, "EN")
		}
		return
	}
	if at, ok := expiryOf(c); ok {
		it.expires = until(at)
		s.items[string(c.Key)] = it
	}
	known, asked := c.Flags.Uint('C')
	if !c.Flags.Has('v') || s.Generation == V1640 && asked && known == it.cas {
		ss.meta(c, "HD")
		return
	}
	ss.metaValue(c, it)
}

func (s *Memcached) metaSet(ss *MemcachedSession, c *meta.Command) {
	name := "set"
	if mode, ok := c.Flags.Get('M'); ok {
		name = map[string]string{"E": "add", "R": "replace", "A": "append", "P": "prepend"}[string(mode)]
	}
	cas, asked := c.Flags.Uint('C')
	if asked {
		name = "cas"
	}
	flags, _ := c.Flags.Uint('F')
	at, _ := expiryOf(c)
	own, _ := c.Flags.Uint('E')
	it := item{value: c.Data, flags: uint32(flags & math.MaxUint32), cas: own, expires: until(at)}
	switch s.store(name, c.Key, it, cas) {
	case "STORED":
		if !c.Flags.Has('q') {
			ss.meta(c, "HD")
		}
	case "NOT_STORED":
		ss.meta(c, "NS")
	case "EXISTS":
		ss.meta(c, "EX")
	default:
		ss.meta(c, "NF")
	}
}

func expiryOf(c *meta.Command) (int64, bool) {
	token, ok := c.Flags.Get('T')
	n, err := strconv.ParseInt(string(token), 10, 32)
	return n, ok && err == nil
}

// meta appends a reply without a value.
func (s *MemcachedSession) meta(c *meta.Command, code string) {
	s.Out = append(s.Out, code...)
	s.opaque(c)
	s.Out = meta.AppendEnd(s.Out)
}

func (s *MemcachedSession) opaque(c *meta.Command) {
	if opaque, ok := c.Flags.Get('O'); ok {
		s.Out = append(append(s.Out, " O"...), opaque...)
	}
}

// metaValue appends a reply with a value.
func (s *MemcachedSession) metaValue(c *meta.Command, it item) {
	s.Out = meta.AppendNumber(append(s.Out, "VA"...), int64(len(it.value)))
	s.opaque(c)
	if c.Flags.Has('c') {
		s.Out = meta.AppendFlag(s.Out, 'c', it.cas)
	}
	if c.Flags.Has('f') {
		s.Out = meta.AppendFlag(s.Out, 'f', uint64(it.flags))
	}
	if c.Flags.Has('t') {
		left := int64(-1)
		if !it.expires.IsZero() {
			left = int64(time.Until(it.expires) / time.Second)
		}
		s.Out = meta.AppendTime(s.Out, 't', left)
	}
	s.Out = meta.AppendBlock(meta.AppendEnd(s.Out), it.value)
}
