package meta

import "math"

// Kind is the kind of one line of a reply.
type Kind uint8

// The kinds of lines. The words of the protocol are in parentheses.
const (
	_       Kind = iota
	HD           // a meta command was carried out, and there is no value (HD)
	VA           // a value of a meta command (VA)
	EN           // mg or me has found no item (EN)
	NF           // no such item (NF, NOT_FOUND)
	NS           // not stored (NS, NOT_STORED)
	EX           // the item has changed (EX, EXISTS)
	MN           // the reply to mn (MN)
	ME           // an item of me (ME)
	Item         // a value of get, gets, gat or gats (VALUE)
	End          // the end of values or statistics (END)
	Stored       // (STORED)
	Deleted      // (DELETED)
	Touched      // (TOUCHED)
	OK           // (OK)
	Stat         // one statistic (STAT)
	Version      // (VERSION)
	Number       // the result of incr or decr
	Error        // (ERROR, CLIENT_ERROR, SERVER_ERROR)
	unknown      // none of these
)

// Reply is one line of a reply, with the value that follows it if it was
// parsed with [Parse]. It shares the parsed bytes.
type Reply struct {
	Kind Kind
	// Size is the length of the value that follows, and -1 if there is none.
	Size int64
	// Flags are the flags of a reply to a meta command.
	Flags Flags
	// Key is the key of an Item or of ME, and the name of a Stat.
	Key []byte
	// Text is the message of an Error, the version, the value of a Stat or the
	// fields of ME.
	Text []byte
	// Number is the result of incr or decr, or the CAS token of an Item, zero if
	// it has none.
	Number uint64
	// ClientFlags are the flags of an Item.
	ClientFlags uint32
	// Code is the first word of an Error.
	Code string
	// Data is the value.
	Data []byte
}

// Fatal reports whether the reply is an error after which the stream cannot be
// trusted: the server may take a value for commands, or has not understood a
// command.
func (r *Reply) Fatal() bool {
	if r.Kind != Error {
		return false
	}
	switch r.Code {
	case "SERVER_ERROR": // the value was read and dropped
		return false
	case "CLIENT_ERROR":
		// These are about the number in the item. The command itself was understood, so the stream
		// is in order.
		switch string(r.Text) {
		case "cannot increment or decrement non-numeric value", "invalid numeric delta argument":
			return false
		}
	}
	return true
}

// kindOf returns the kind of a line by its first word.
func kindOf(first []byte) Kind {
	switch string(first) {
	case "HD":
		return HD
	case "VA":
		return VA
	case "EN":
		return EN
	case "NF", "NOT_FOUND":
		return NF
	case "NS", "NOT_STORED":
		return NS
	case "EX", "EXISTS":
		return EX
	case "MN":
		return MN
	case "ME":
		return ME
	case "VALUE":
		return Item
	case "END":
		return End
	case "STORED":
		return Stored
	case "DELETED":
		return Deleted
	case "TOUCHED":
		return Touched
	case "OK", "RESET":
		return OK
	case "STAT":
		return Stat
	case "VERSION":
		return Version
	case "ERROR", "CLIENT_ERROR", "SERVER_ERROR":
		return Error
	}
	if len(first) > 0 && first[0] >= '0' && first[0] <= '9' {
		return Number
	}
	return unknown
}

// parseLine parses a line without its end.
func parseLine(line []byte) (r Reply, err error) {
	first, rest := word(line)
	r.Kind, r.Size = kindOf(first), -1
	ok := true
	switch r.Kind {
	case VA:
		var size []byte
		size, rest = word(rest)
		r.Size, ok = sizeOf(size)
		fallthrough
	case HD, EN, NF, NS, EX, MN:
		r.Flags = rest
		ok = ok && checkFlags(r.Flags)
	case Item:
		ok = r.item(rest)
	case ME, Stat:
		r.Key, r.Text = word(rest)
		ok = len(r.Key) > 0
	case Version:
		r.Text = rest
	case Error:
		r.Code, r.Text = code(first), rest
	case Number:
		r.Number, ok = number(first) // decr leaves spaces behind it
	// The bytes behind an unknown line may be a value or another reply: the stream cannot be read on.
	case unknown:
		return r, broken("unknown reply")
	}
	if !ok {
		return r, broken("malformed reply")
	}
	return r, nil
}

// code is the first word of an error.
func code(first []byte) string {
	// The texts are constants: string(first) would allocate for each error.
	switch len(first) {
	case len("ERROR"):
		return "ERROR"
	case len("CLIENT_ERROR"):
		if first[0] == 'C' {
			return "CLIENT_ERROR"
		}
	}
	return "SERVER_ERROR"
}

// item parses the fields of a VALUE.
func (r *Reply) item(rest []byte) bool {
	var flags, size, cas []byte
	r.Key, rest = word(rest)
	flags, rest = word(rest)
	size, rest = word(rest)
	cas, rest = word(rest)
	n, ok := number(flags)
	r.ClientFlags = uint32(n)
	// The key is compared with the key of the request. One with a space or a line end could make the
	// parts of the line seem other ones.
	if !ok || n > math.MaxUint32 || !PlainKey(r.Key) || len(rest) > 0 {
		return false
	}
	if r.Size, ok = sizeOf(size); !ok {
		return false
	}
	if len(cas) > 0 {
		r.Number, ok = number(cas)
	}
	return ok
}

func sizeOf(p []byte) (int64, bool) {
	n, ok := number(p)
	return int64(n), ok && n <= math.MaxInt64/4
}

// Parse parses the first line of a reply from [Reader.Next], with its value, and
// returns the rest: the next value or the end. They share the bytes of raw.
func Parse(raw []byte) (r Reply, rest []byte) {
	end := lineEnd(raw)
	if end < 0 {
		return Reply{Kind: unknown, Size: -1}, nil
	}
	r, err := parseLine(raw[:end])
	if rest = raw[end+2:]; err != nil || r.Size >= 0 && r.Size+2 > int64(len(rest)) {
		return Reply{Kind: unknown, Size: -1}, nil
	}
	if r.Size >= 0 {
		r.Data = rest[:r.Size:r.Size]
		rest = rest[r.Size+2:]
	}
	return r, rest
}
