package redis

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/redis/slots"
)

// ErrTooLarge is in the chain of the error of a call with a value larger than
// Options.MaxValue. Nothing was sent.
var ErrTooLarge = errors.New("redis: value larger than Options.MaxValue")

// ErrCrossSlot is returned when keys that must be in one slot are in several.
// Nothing was sent. The text in braces decides the slot of a key, as in
// {user1}name and {user1}age.
var ErrCrossSlot = errors.New("redis: keys are in different slots")

// maxValue is the length of the largest string, in bytes.
func (o *Options) maxValue() int64 {
	if o.MaxValue > 0 {
		return int64(o.MaxValue)
	}
	return 512 << 20
}

// besideValue bounds the bytes beside a value in a reply with it: the headers of up to 8 elements, of 16
// bytes each, the state, the lease, the hold and the token of its entry, each of a few numbers of up to 20
// digits, and the epoch in its state, which names the server in a cluster. They take less than 500.
const besideValue = 1 << 10

// maxStored is the length of the largest value that a reply can hold beside the other fields of its
// entry, in bytes.
func (o *Options) maxStored() int64 {
	most := int64(o.MaxReply)
	if most == 0 {
		most = 1 << 30
	}
	return max(0, min(o.maxValue(), most-besideValue))
}

// checkCommand returns the name of a command in upper case, if it may be sent.
func (o *Options) checkCommand(args []any) (string, error) {
	name, err := commandName(args)
	if err == nil {
		err = o.checkSizes(args)
	}
	return name, err
}

func (o *Options) checkSizes(args []any) error {
	most := o.maxValue()
	for _, a := range args {
		// Only these types can be long.
		n := 0
		switch v := a.(type) {
		case string:
			n = len(v)
		case []byte:
			n = len(v)
		}
		if int64(n) > most {
			return ErrTooLarge
		}
	}
	return nil
}

// checkSet checks the value and the life of a SET.
func (o *Options) checkSet(size int64, ttl time.Duration) error {
	switch {
	case size > o.maxValue():
		return ErrTooLarge
	case ttl < 0:
		return errors.New("redis: negative life")
	}
	return nil
}

// commandName returns the name of a command in upper case, if it may be sent
// over a connection that others use.
func commandName(args []any) (string, error) {
	if len(args) == 0 {
		return "", errors.New("redis: command missing")
	}
	name, ok := textArg(args[0])
	if !ok || name == "" {
		return "", errors.New("redis: command is not a string")
	}
	name, sub := strings.ToUpper(name), ""
	// Of other commands, no subcommand changes the connection.
	if len(args) > 1 && (name == "CLIENT" || name == "SCRIPT") {
		sub, _ = textArg(args[1])
	}
	if resp.ChangesConnection(name, strings.ToUpper(sub)) {
		return "", errors.New("redis: " + name + " changes the connection, which others use next")
	}
	return name, nil
}

func textArg(arg any) (string, bool) {
	switch v := arg.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}

// argText returns an argument in the form in which a server gets it.
func argText(arg any) string {
	if s, ok := textArg(arg); ok {
		return s
	}
	// A key may be a number: what counts is the text that the server gets.
	b, err := resp.AppendArg(nil, arg)
	if err != nil {
		return "" // the command is refused for it
	}
	_, b, _ = bytes.Cut(b, []byte("\r\n"))
	return string(bytes.TrimSuffix(b, []byte("\r\n")))
}

// weight returns the approximate number of bytes of args.
func weight(args []any) (n int) {
	for _, a := range args {
		switch v := a.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// keyOf returns the argument in which most commands have their key.
func keyOf(args []any) string {
	if len(args) > 1 {
		key, _ := textArg(args[1])
		return key
	}
	return ""
}

// slotOf returns the slot of a command's first key, or -1 if it has none.
func slotOf(name string, args []any) int {
	i := slots.FirstKey(name, len(args), func(i int) string { return argText(args[i]) })
	if i == 0 {
		return -1
	}
	return slots.Of(argText(args[i]))
}

// sameSlot returns the slot of keys, or -1 if there are none.
func sameSlot(keys []string) (slot int, err error) {
	slot = -1
	for _, key := range keys {
		s := slots.Of(key)
		if slot >= 0 && s != slot {
			return -1, ErrCrossSlot
		}
		slot = s
	}
	return slot, nil
}

func argError(err error) error {
	// Package resp is not public, so its name says nothing to a caller.
	if text, ok := strings.CutPrefix(err.Error(), "resp: "); ok {
		return errors.New("redis: " + text)
	}
	return err
}
