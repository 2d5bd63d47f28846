package meta

import (
	"encoding/base64"
	"strconv"
)

// A command or a reply is appended piece by piece: its head, then flags and numbers,
// then End or Block. The pieces do not check what the caller appends: keys are
// checked before, by PlainKey.

// AppendHead appends the name of a command or reply, and a key.
func AppendHead(dst []byte, name, key string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ' ')
	return append(dst, key...)
}

// AppendBinaryHead is AppendHead for a meta command with a key in base64. The flag
// b must follow.
func AppendBinaryHead(dst []byte, name, key string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ' ')
	return base64.StdEncoding.AppendEncode(dst, []byte(key))
}

// AppendNumber appends a number as a word of its own.
func AppendNumber(dst []byte, n int64) []byte { return strconv.AppendInt(append(dst, ' '), n, 10) }

// AppendUint appends a number as a word of its own.
func AppendUint(dst []byte, n uint64) []byte { return strconv.AppendUint(append(dst, ' '), n, 10) }

// AppendWords appends words as they are, each with a space in front, or flags
// without a token: AppendWords(dst, " v f c").
func AppendWords(dst []byte, words string) []byte { return append(dst, words...) }

// AppendFlag appends a flag with a number as its token.
func AppendFlag(dst []byte, letter byte, token uint64) []byte {
	return strconv.AppendUint(append(dst, ' ', letter), token, 10)
}

// AppendTime appends a flag with a time of expiry, which may be negative.
func AppendTime(dst []byte, letter byte, at int64) []byte {
	return strconv.AppendInt(append(dst, ' ', letter), at, 10)
}

// AppendEnd appends the end of a line.
func AppendEnd(dst []byte) []byte { return append(dst, '\r', '\n') }

// AppendBlock appends a value and the end of its line.
func AppendBlock(dst, value []byte) []byte { return AppendEnd(append(dst, value...)) }

// NoOp is the command with the reply MN: all replies to earlier commands, also to
// quiet ones, come before MN.
const NoOp = "mn\r\n"

// AppendItem appends one value of the reply to a classic get, or to gets if cas is
// not zero.
func AppendItem(dst []byte, key string, flags uint32, cas uint64, value []byte) []byte {
	dst = AppendUint(AppendHead(dst, "VALUE", key), uint64(flags))
	dst = AppendUint(dst, uint64(len(value)))
	if cas != 0 {
		dst = AppendUint(dst, cas)
	}
	return AppendBlock(AppendEnd(dst), value)
}
