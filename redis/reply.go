package redis

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/wire/pool"
	"github.com/strata-cache/strata/remote"
)

// Errors that callers tell apart.
var (
	// ErrNil is returned when the server answered that there is nothing: the
	// key is missing. An empty value is not an error.
	ErrNil = errors.New("redis: nil")
	// ErrClosed is returned by calls after Close.
	ErrClosed = errors.New("redis: closed")
	// ErrProtocol is in the chain of an error when the server broke the
	// protocol or a limit of Options. The connection was closed.
	ErrProtocol = errors.New("redis: protocol broken")
	// ErrType is in the chain of an error when a reply is sound but not of the
	// type that the caller asks for, such as the integer of a text or of an
	// array.
	ErrType = errors.New("redis: reply of another type")
)

// typeError is an ErrType with its reason.
type typeError string

// Error implements error.
func (e typeError) Error() string { return "redis: reply " + string(e) }

// Is makes it an ErrType.
func (typeError) Is(target error) bool { return target == ErrType }

// Error is an error reply of the server. Its connection stays in use, unless
// the Code is READONLY or NOREPLICAS: its server is not a primary, or may have
// ceased to be one. So another connection is opened for the next call, once a
// second at most.
type Error struct {
	// Code is the first word, such as ERR, WRONGTYPE, LOADING, READONLY,
	// NOSCRIPT, OOM or BUSY.
	Code string
	// Message is the rest, at most 512 bytes of it, without the arguments
	// that some servers repeat in it.
	Message string
}

// Error implements error.
func (e *Error) Error() string { return "redis: " + e.Code + " " + e.Message }

// Is makes it a [remote.ErrRefused], and a [remote.ErrMoved] if the server is a replica
// by now.
func (e *Error) Is(target error) bool {
	return target == remote.ErrRefused || target == remote.ErrMoved && e.Code == "READONLY"
}

func serverError(text []byte) *Error {
	const longest = 512
	code, message, _ := strings.Cut(string(text[:min(len(text), longest)]), " ")
	message, _, _ = strings.Cut(message, ", with args beginning with")
	return &Error{Code: code, Message: message}
}

// ConnError says that a connection failed, could not be opened, or could not
// be had in time. It wraps the reason, such as context.Canceled, io.EOF or
// [ErrProtocol]. The connection is gone.
type ConnError struct {
	// Op is the operation: wait, dial, greet, write or read; or route, the
	// search for the node of a cluster.
	Op string
	// Sent says that the server may have executed a command of the call.
	Sent bool
	// Err is the reason.
	Err error
	// cut says that a greeting was not answered because the connection was lost.
	cut bool
}

// Error implements error.
func (e *ConnError) Error() string {
	return "redis: " + e.Op + ": " + strings.TrimPrefix(e.Err.Error(), "redis: ")
}

// Unwrap returns the reason.
func (e *ConnError) Unwrap() error { return e.Err }

// faults are the errors of this package for its connections.
var faults = &pool.Errors{ // read-only
	Fail: func(f pool.Failure) error { return &ConnError{Op: f.Op, Sent: f.Sent, Err: f.Err, cut: f.Cut} },
	Inside: func(err error) (f pool.Failure, ok bool) {
		ce, ok := err.(*ConnError) //nolint:errorlint // within another error it may be of another client, as of a reader
		if !ok {
			return f, false
		}
		return pool.Failure{Op: ce.Op, Sent: ce.Sent, Err: ce.Err, Cut: ce.cut}, true
	},
	Package: "redis", Protocol: ErrProtocol, Closed: ErrClosed, TooLarge: ErrTooLarge,
}

// SafeToRetry reports whether the call that returned err certainly had no
// effect on the server: nothing was sent whole, or the server refused because
// of a state that passes.
func SafeToRetry(err error) bool {
	var ce *ConnError
	if errors.As(err, &ce) {
		return !ce.Sent && !errors.Is(err, ErrClosed)
	}
	var se *Error
	if errors.As(err, &se) {
		switch se.Code {
		case "LOADING", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "BUSY", "READONLY":
			return true
		}
	}
	return false
}

// temporary reports whether a server has refused because of a state in which a
// cluster is for a while: after a failover another server may serve the slot.
func temporary(refused *Error) bool {
	switch refused.Code {
	case "CLUSTERDOWN", "MASTERDOWN", "READONLY", "LOADING", "TRYAGAIN":
		return true
	}
	return false
}

// lasting reports whether a server has answered in a way that a repetition does not
// mend: it breaks the protocol, or refuses a greeting or a question for good.
func lasting(err error) bool {
	var refused *Error
	return errors.Is(err, ErrProtocol) || errors.As(err, &refused) && !temporary(refused)
}

// Reply is the answer to one command: a value or an error. It belongs to the
// caller. The zero Reply is null.
type Reply struct {
	v   resp.Value
	err error
}

func newReply(v resp.Value) Reply {
	if v.Kind() == resp.Error {
		return refused(v)
	}
	return Reply{v: v}
}

// refused returns the reply of a server that refused the command.
func refused(v resp.Value) Reply { return Reply{err: serverError(v.Bytes())} }

// size returns the approximate number of bytes of the reply.
func (r Reply) size() int { return r.v.Size() }

// Err returns the error of the call: an [*Error] from the server, a
// [*ConnError], or nil. Null is not an error.
func (r Reply) Err() error { return r.err }

// IsNull reports whether the server answered that there is nothing.
func (r Reply) IsNull() bool { return r.err == nil && r.v.Kind() == resp.Null }

// Ok returns nil if the reply is the status OK, ErrNil if it is null (a SET
// with NX that did not set), and an error otherwise.
func (r Reply) Ok() error {
	if r.err == nil && !r.v.OK() {
		return r.mismatch("OK")
	}
	return r.err
}

// mismatch returns the error for a reply of another type than the wanted one.
func (r Reply) mismatch(want string) error {
	switch {
	case r.err != nil:
		return r.err
	case r.v.Kind() == resp.Null:
		return ErrNil
	}
	return typeError("is of type " + r.v.Kind().String() + ", not " + want)
}

// Bytes returns the text of a string or status, or a number as servers write it
// in RESP2, where a boolean is 1 or 0. It may be empty but is not nil. Null is
// ErrNil.
func (r Reply) Bytes() ([]byte, error) {
	if r.err == nil {
		switch r.v.Kind() {
		case resp.Bulk, resp.Status, resp.Verbatim, resp.BigNumber:
			return r.v.Bytes(), nil
		case resp.Int, resp.Bool, resp.Double:
			return r.v.AppendNumber(nil), nil
		}
	}
	return nil, r.mismatch("string")
}

// Append appends the result of Bytes to dst, without allocating if there is room.
// Null is ErrNil. On any error dst is returned as it was.
func (r Reply) Append(dst []byte) ([]byte, error) {
	if k := r.v.Kind(); r.err == nil && (k == resp.Int || k == resp.Bool || k == resp.Double) {
		return r.v.AppendNumber(dst), nil
	}
	b, err := r.Bytes()
	return append(dst, b...), err
}

// WriteTo implements io.WriterTo: it writes the result of Bytes to w.
// Null is ErrNil.
func (r Reply) WriteTo(w io.Writer) (int64, error) {
	b, err := r.Bytes()
	if err != nil {
		return 0, err
	}
	n, err := w.Write(b)
	return int64(n), err
}

// String is Bytes as a string.
func (r Reply) String() (string, error) {
	b, err := r.Bytes()
	return string(b), err
}

// Int returns an integer, a boolean as 1 or 0, or a double or string that holds
// an integer. Null is ErrNil.
func (r Reply) Int() (int64, error) {
	if r.err == nil {
		switch r.v.Kind() {
		case resp.Int, resp.Bool:
			return r.v.Int(), nil
		case resp.Bulk, resp.Status, resp.Double, resp.BigNumber:
			b, _ := r.Bytes()
			if n, err := strconv.ParseInt(string(b), 10, 64); err == nil {
				return n, nil
			}
			return 0, typeError("is not an integer")
		}
	}
	return 0, r.mismatch("integer")
}

// Float returns a double, an integer, a boolean as 1 or 0, or a string that holds
// a number. Null is ErrNil.
func (r Reply) Float() (float64, error) {
	if r.err == nil {
		switch r.v.Kind() {
		case resp.Double:
			return r.v.Float(), nil
		case resp.Int, resp.Bool:
			return float64(r.v.Int()), nil
		case resp.Bulk, resp.BigNumber:
			if f, err := strconv.ParseFloat(string(r.v.Bytes()), 64); err == nil {
				return f, nil
			}
			return 0, typeError("is not a number")
		}
	}
	return 0, r.mismatch("number")
}

// JSON decodes a string that holds JSON into v. Null is ErrNil; text that does
// not fit v is ErrType, without the text.
func (r Reply) JSON(v any) error {
	b, err := r.Bytes()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return typeError("is not JSON for the type")
	}
	return nil
}

// Len is the number of elements of an array or set, or of pairs of a map; zero
// for other replies.
func (r Reply) Len() int {
	if r.v.Kind() == resp.Map {
		return r.v.Len() / 2
	}
	return r.v.Len()
}

// All yields the elements of an array or set with their indexes; of a map, its
// keys and values in turn. Each element is a Reply that shares the bytes of
// this one. It yields nothing for other replies: look at Err first.
func (r Reply) All() iter.Seq2[int, Reply] {
	return func(yield func(int, Reply) bool) {
		i := 0
		for v := range r.v.Elems() {
			if !yield(i, newReply(v)) {
				return
			}
			i++
		}
	}
}

// Pairs yields the pairs of a map, or of an array that holds keys and values
// in turn, which is how RESP2 writes maps.
func (r Reply) Pairs() iter.Seq2[Reply, Reply] {
	return func(yield func(Reply, Reply) bool) {
		var key Reply
		for i, e := range r.All() {
			if i%2 == 0 {
				key = e
			} else if !yield(key, e) {
				return
			}
		}
	}
}

// codeOf returns the first word of an error.
func codeOf(v resp.Value) []byte {
	code, _, _ := bytes.Cut(v.Bytes(), []byte(" "))
	return code
}

// noAuth is the code of a server that does not know the user of a connection.
const noAuth = "NOAUTH"

// disowned reports whether an error reply with this text says that the server does not know the user of
// the connection, and has carried out nothing. A script, which has had effects, may answer with the code, too.
func disowned(text []byte) bool {
	return bytes.HasPrefix(text, []byte(noAuth+" Authentication required"))
}

// unfit reports whether a reply says that the server takes no writes, or wants a
// new greeting.
func unfit(v resp.Value) bool {
	if v.Kind() != resp.Error {
		return false
	}
	switch string(codeOf(v)) {
	case "READONLY", "NOREPLICAS", noAuth:
		return true
	}
	return false
}

// unknown reports whether a reply says that the server does not know a script.
func unknown(v resp.Value) bool {
	return v.Kind() == resp.Error && string(codeOf(v)) == "NOSCRIPT"
}

func unknownScript(err error) bool {
	if err == nil {
		return false
	}
	var refused *Error
	return errors.As(err, &refused) && refused.Code == "NOSCRIPT"
}
