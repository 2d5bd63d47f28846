package meta

import (
	"encoding/base64"
	"math"
	"strconv"
)

// Command is a command of a client as a server reads it. It is valid until the next
// one is read.
type Command struct {
	// Name is the first word.
	Name string
	// Key is the key of a command that has one, decoded if it was in base64.
	Key []byte
	// Args are the words of a command not taken apart: the keys of get and gets,
	// and all words of commands that the Reader does not know.
	Args [][]byte
	// Flags are the flags of a meta command.
	Flags Flags
	// ClientFlags, Expiry, CAS and Delta belong to a classic command.
	ClientFlags uint32
	Expiry      int64
	CAS, Delta  uint64
	// NoReply says that no reply is wanted.
	NoReply bool
	// Data is the value.
	Data []byte
	// Refusal, if not empty, is the line that a server answers without carrying
	// the command out. After a refusal the stream goes on behind the command.
	Refusal string
}

const (
	badFormat = "CLIENT_ERROR bad command line format"
	badChunk  = "CLIENT_ERROR bad data chunk"
	tooLarge  = "SERVER_ERROR object too large for cache"
)

// ReadCommand reads the next command with its value. A value over the limit is read
// and dropped, and refused. The errors are as in [Reader.Read].
func (r *Reader) ReadCommand() (Command, error) {
	line, err := r.line(MaxCommand)
	if err != nil {
		return Command{}, err
	}
	c, size := r.parseCommand(string(line)) // its memory is used for the value
	if size < 0 {
		return c, nil
	}
	if size > int64(r.lim.Value) {
		c.Refusal = tooLarge
		return c, r.dropValue(size)
	}
	c.Data, err = r.Buffer.Append(nil, int(size))
	if err != nil {
		return c, err
	}
	ok, err := r.CRLF()
	if err == nil && !ok {
		c.Refusal, c.Data = badChunk, nil
		_, err = r.line(MaxCommand) // the rest of the bytes sent
	}
	return c, err
}

// dropValue reads a value and its end and keeps nothing.
func (r *Reader) dropValue(n int64) error {
	defer r.Release()
	for n > 0 {
		p, err := r.Some(n)
		if err != nil {
			return err
		}
		n -= int64(len(p))
	}
	return r.EndValue()
}

// parseCommand parses the line of a command. size is the length of the value that
// follows, and -1 if none does.
func (r *Reader) parseCommand(line string) (c Command, size int64) {
	first, rest := word([]byte(line))
	c.Name, size = string(first), -1
	r.words = r.words[:0]
	for len(rest) > 0 {
		var one []byte
		if one, rest = word(rest); len(one) > 0 {
			r.words = append(r.words, one)
		}
	}
	ok := true
	switch c.Name {
	case "mg", "ms", "md", "ma", "me":
		size, ok = c.meta(line, r.words)
	case "get", "gets":
		c.Args, ok = r.words, len(r.words) > 0
	case "gat", "gats":
		if ok = len(r.words) > 1; ok {
			c.Expiry, ok = signed(r.words[0])
			c.Args = r.words[1:]
		}
	case "set", "add", "replace", "append", "prepend", "cas":
		size, ok = c.store(r.words)
	case "delete", "touch", "incr", "decr":
		ok = c.single(r.words)
	default:
		c.Args = r.words
	}
	for _, key := range c.keys() {
		ok = ok && PlainKey(key)
	}
	if !ok && c.Refusal == "" {
		c.Refusal = badFormat
	}
	return c, size
}

// keys returns the keys of the command, as far as they have to be plain.
func (c *Command) keys() [][]byte {
	switch {
	case c.Name == "get", c.Name == "gets", c.Name == "gat", c.Name == "gats":
		return c.Args
	case c.Key != nil && !c.Flags.Has('b'):
		return [][]byte{c.Key}
	}
	return nil
}

// meta takes a meta command apart.
func (c *Command) meta(line string, words [][]byte) (size int64, ok bool) {
	size = -1
	if len(words) == 0 || len(words[0]) > MaxKey {
		return size, false
	}
	c.Key = words[0]
	_, rest := word([]byte(line))
	_, rest = word(rest)
	ok = true
	if c.Name == "ms" {
		var n []byte
		n, rest = word(rest)
		if size, ok = sizeOf(n); !ok {
			size = -1
		}
	}
	c.Flags = rest
	// The value that may follow is read all the same, so that the stream goes on behind it.
	if !checkFlags(c.Flags) {
		c.Refusal = "CLIENT_ERROR invalid or duplicate flag"
		return size, false
	}
	if c.Flags.Has('b') {
		key, err := base64.StdEncoding.DecodeString(string(c.Key))
		c.Key = key
		ok = ok && err == nil && len(key) > 0
	}
	return size, ok
}

// store takes a classic command with a value apart.
func (c *Command) store(words [][]byte) (size int64, ok bool) {
	words, c.NoReply = cutNoReply(words)
	fields := 4
	if c.Name == "cas" {
		fields = 5
	}
	if len(words) != fields {
		return -1, false
	}
	c.Key = words[0]
	flags, ok1 := number(words[1])
	c.ClientFlags = uint32(flags)
	expiry, ok2 := signed(words[2])
	c.Expiry = expiry
	// If another field is malformed, the length still says where the next command begins.
	size, ok3 := sizeOf(words[3])
	if !ok3 {
		size = -1
	}
	ok4 := true
	if c.Name == "cas" {
		c.CAS, ok4 = number(words[4])
	}
	return size, ok1 && flags <= math.MaxUint32 && ok2 && ok3 && ok4
}

// single takes a classic command with one key and no value apart.
func (c *Command) single(words [][]byte) (ok bool) {
	words, c.NoReply = cutNoReply(words)
	fields := 2
	if c.Name == "delete" {
		fields = 1
	}
	if len(words) != fields {
		return false
	}
	c.Key, ok = words[0], true
	switch c.Name {
	case "touch":
		c.Expiry, ok = signed(words[1])
	case "incr", "decr":
		if c.Delta, ok = number(words[1]); !ok {
			c.Refusal = "CLIENT_ERROR invalid numeric delta argument"
		}
	}
	return ok
}

func cutNoReply(words [][]byte) ([][]byte, bool) {
	// The only word of a command is its key, even if it is this word.
	if n := len(words); n > 1 && string(words[n-1]) == "noreply" {
		return words[:n-1], true
	}
	return words, false
}

// signed parses a time of expiry.
func signed(p []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(p), 10, 32)
	return n, err == nil
}
