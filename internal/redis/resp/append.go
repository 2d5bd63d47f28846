package resp

import (
	"errors"
	"math"
	"reflect"
	"strconv"
)

// AppendArg appends one argument of a command. It accepts string, []byte, all
// integers, floats, and bool (as 1 and 0). For other types it returns an error
// that names the type, and appends nothing.
func AppendArg(dst []byte, arg any) ([]byte, error) {
	switch v := arg.(type) {
	case string:
		return AppendString(dst, v), nil
	case []byte:
		return AppendBulk(dst, v), nil
	case int:
		return appendIntArg(dst, int64(v)), nil
	case int64:
		return appendIntArg(dst, v), nil
	case uint64:
		return appendUintArg(dst, v), nil
	case float64:
		return appendFloatArg(dst, v, 64), nil
	case bool:
		if v {
			return append(dst, "$1\r\n1\r\n"...), nil
		}
		return append(dst, "$1\r\n0\r\n"...), nil
	case int32:
		return appendIntArg(dst, int64(v)), nil
	case int16:
		return appendIntArg(dst, int64(v)), nil
	case int8:
		return appendIntArg(dst, int64(v)), nil
	case uint:
		return appendUintArg(dst, uint64(v)), nil
	case uint32:
		return appendUintArg(dst, uint64(v)), nil
	case uint16:
		return appendUintArg(dst, uint64(v)), nil
	case uint8:
		return appendUintArg(dst, uint64(v)), nil
	case float32:
		return appendFloatArg(dst, float64(v), 32), nil
	case nil:
		return dst, errors.New("resp: argument is nil")
	}
	return dst, errors.New("resp: argument of type " + reflect.TypeOf(arg).String())
}

// AppendCommand appends a command. On error it returns dst unchanged.
func AppendCommand(dst []byte, args ...any) ([]byte, error) {
	// Half a command in a batch would shift all commands behind it, so dst stays as it was on an
	// error.
	out := AppendArray(dst, len(args))
	var err error
	for _, a := range args {
		if out, err = AppendArg(out, a); err != nil {
			return dst, err
		}
	}
	return out, nil
}

func appendIntArg(dst []byte, n int64) []byte {
	var num [20]byte
	return AppendBulk(dst, strconv.AppendInt(num[:0], n, 10))
}

func appendUintArg(dst []byte, n uint64) []byte {
	var num [20]byte
	return AppendBulk(dst, strconv.AppendUint(num[:0], n, 10))
}

func appendFloatArg(dst []byte, f float64, bits int) []byte {
	var num [32]byte
	return AppendBulk(dst, appendFloat(num[:0], f, bits))
}

// appendFloat formats a float as Redis does: strconv would write +Inf, or
// 1e+06.
func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(dst, "inf"...)
	case math.IsInf(f, -1):
		return append(dst, "-inf"...)
	case math.IsNaN(f):
		return append(dst, "nan"...)
	case math.Abs(f) >= 1e-4 && math.Abs(f) < 1e17:
		return strconv.AppendFloat(dst, f, 'f', -1, bits)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, bits)
}

func appendHeader(dst []byte, typ byte, n int64) []byte {
	switch { // the usual case
	case n < 0:
	case n < 10:
		return append(dst, typ, '0'+byte(n), '\r', '\n')
	case n < 100:
		return append(dst, typ, '0'+byte(n/10), '0'+byte(n%10), '\r', '\n')
	}
	dst = append(dst, typ)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, '\r', '\n')
}

// AppendBulk appends a string.
func AppendBulk(dst, s []byte) []byte {
	dst = appendHeader(dst, '$', int64(len(s)))
	dst = append(dst, s...)
	return append(dst, '\r', '\n')
}

// AppendString appends a string.
func AppendString(dst []byte, s string) []byte {
	dst = appendHeader(dst, '$', int64(len(s)))
	dst = append(dst, s...)
	return append(dst, '\r', '\n')
}

// AppendBulkHeader appends the header of a string of n bytes. The caller sends
// the bytes, and CRLF after them.
func AppendBulkHeader(dst []byte, n int64) []byte { return appendHeader(dst, '$', n) }

// AppendArray appends the header of an array, or of a command, of n elements.
func AppendArray(dst []byte, n int) []byte { return appendHeader(dst, '*', int64(n)) }

// AppendMap appends the header of a map of n pairs, which follow.
func AppendMap(dst []byte, n int) []byte { return appendHeader(dst, '%', int64(n)) }

// AppendPush appends the header of a push of n elements, which follow.
func AppendPush(dst []byte, n int) []byte { return appendHeader(dst, '>', int64(n)) }

// AppendInt appends an integer.
func AppendInt(dst []byte, n int64) []byte { return appendHeader(dst, ':', n) }

// AppendStatus appends a status such as OK. Line ends in s become spaces.
func AppendStatus(dst []byte, s string) []byte { return appendLine(dst, '+', s) }

// AppendError appends an error; its first word is the code. Line ends in s
// become spaces.
func AppendError(dst []byte, s string) []byte { return appendLine(dst, '-', s) }

func appendLine(dst []byte, typ byte, s string) []byte {
	dst = append(dst, typ)
	for i := range len(s) {
		c := s[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		dst = append(dst, c)
	}
	return append(dst, '\r', '\n')
}

// AppendNull appends the null of RESP2.
func AppendNull(dst []byte) []byte { return append(dst, "$-1\r\n"...) }

// AppendNull3 appends the null of RESP3.
func AppendNull3(dst []byte) []byte { return append(dst, "_\r\n"...) }

// AppendBool appends a boolean.
func AppendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, "#t\r\n"...)
	}
	return append(dst, "#f\r\n"...)
}

// ReadCommand reads a command: an array of at least one string. The caller owns
// the arguments. Errors are as for [Reader.Read].
func (r *Reader) ReadCommand() ([][]byte, error) {
	v, err := r.Read()
	if err != nil {
		return nil, err
	}
	if v.kind != Array || v.n == 0 {
		return nil, broken("not a command")
	}
	args := make([][]byte, 0, v.Len())
	for e := range v.Elems() {
		if e.kind != Bulk {
			return nil, broken("not a command")
		}
		args = append(args, e.body)
	}
	return args, nil
}
