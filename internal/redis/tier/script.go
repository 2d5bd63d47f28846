// Calls of scripts: by digest at first, then with the text if the server does not
// know the digest. Scripts are permitted, or forbidden after a server has said so;
// [Tier.Probe] asks again.
// Invariant: run and runAll repeat a call with its text only after the reply that the
// server does not know the digest, so they execute it once.

package tier

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
)

// script is a script with two beginnings of its call, by digest and by text. A
// beginning has the command, the script and the number of keys.
type script struct{ digest, text string }

func newScript(text string, keys int) *script {
	// The protocol identifies scripts by SHA-1.
	sum := sha1.Sum([]byte(text))
	head := func(command, script string) string {
		b := resp.AppendString(resp.AppendString(nil, command), script)
		return string(resp.AppendString(b, strconv.Itoa(keys)))
	}
	return &script{digest: head("EVALSHA", hex.EncodeToString(sum[:])), text: head("EVAL", text)}
}

// headArgs is the number of arguments in the beginning of a call.
const headArgs = 3

// scripts are the layout's scripts.
type scripts struct {
	acquire, fill, put, token, set, drop, extend, release, renew, clean, changes *script
	namespace, dropAll, dropTags                                                 *script
	// forbidden says that the server has refused to run scripts.
	forbidden atomic.Bool
}

func newScripts() *scripts {
	return &scripts{
		acquire:   newScript(layout.Acquire, 1),
		fill:      newScript(layout.Fill, 1),
		put:       newScript(layout.Put, 2),
		token:     newScript(layout.Token, 1),
		set:       newScript(layout.Set, 2),
		drop:      newScript(layout.Drop, 2),
		extend:    newScript(layout.Extend, 1),
		release:   newScript(layout.Release, 1),
		renew:     newScript(layout.Renew, 1),
		clean:     newScript(layout.Clean, 1),
		changes:   newScript(layout.Changes, 0),
		namespace: newScript(layout.Namespace(), 2),
		dropAll:   newScript(layout.DropAll(), 2),
		dropTags:  newScript(layout.DropTags(), 2),
	}
}

// call appends a call of a script. head is one of its beginnings.
type call func(dst []byte, head string) []byte

// run calls a script on any connection: by its digest, and then with its text
// if the server does not know the digest.
func (s *site) run(ctx context.Context, sc *script, c call) (resp.Value, error) {
	v, err := s.srv.Send(ctx, c, sc.digest)
	if err == nil && unknownScript(v) {
		v, err = s.srv.Send(ctx, c, sc.text)
	}
	return v, err
}

// runOver is run over one connection.
func runOver(ask layout.Ask, s *script, c call) (resp.Value, error) {
	v, err := runAll(ask, 1, func(dst []byte, text func(*script) string, _ int) []byte { return c(dst, text(s)) })
	if err != nil {
		return resp.Value{}, err
	}
	return v[0], nil
}

// runAll makes n calls of scripts over one connection in one round trip, or two
// if the server does not know them. c appends a call, with the beginning that
// head has for its script.
func runAll(ask layout.Ask, n int, c func(dst []byte, head func(*script) string, i int) []byte) ([]resp.Value, error) {
	b := layout.Batch{N: n}
	for i := range n {
		b.Text = c(b.Text, func(s *script) string { return s.digest }, i)
	}
	replies, err := ask(&b)
	if err != nil {
		return nil, err
	}
	var again []int
	var late layout.Batch
	sent := map[*script]bool{}
	for i, v := range replies {
		if !unknownScript(v) { // it was executed
			continue
		}
		again = append(again, i)
		late.Text, late.N = c(late.Text, func(s *script) string {
			if sent[s] {
				return s.digest
			}
			sent[s] = true
			return s.text
		}, i), late.N+1
	}
	if len(again) == 0 {
		return replies, nil
	}
	answers, err := ask(&late)
	for i, v := range answers {
		replies[again[i]] = v
	}
	return replies, err
}

func unknownScript(v resp.Value) bool {
	return v.Kind() == resp.Error && strings.HasPrefix(string(v.Bytes()), "NOSCRIPT ")
}

// scripted reports whether scripts are used.
func (t *Tier) scripted() bool { return !t.scripts.forbidden.Load() }

// forbids reports whether a reply says that the server does not run scripts, or
// not for this user, and remembers it.
func (t *Tier) forbids(v resp.Value) bool {
	no := layout.NoScripts(v)
	if no {
		t.scripts.forbidden.Store(true)
	}
	// Of several calls of one script only the first is sent with its text.
	return no || unknownScript(v) && !t.scripted()
}

// errAnswer is returned for a reply that no script gives.
var errAnswer = errors.New("redis: tier: unknown answer of a script")

// refusal returns the error reply of a server as an error, or nil.
func refusal(v resp.Value) error {
	if v.Kind() == resp.Error {
		return &layout.Refusal{Text: string(v.Bytes())}
	}
	return nil
}

// appendHex appends an argument in the form of tokens.
func appendHex(dst []byte, n uint64) []byte {
	var b [16]byte
	return resp.AppendBulk(dst, strconv.AppendUint(b[:0], n, 16))
}

func appendInt(dst []byte, n int64) []byte {
	var b [20]byte
	return resp.AppendBulk(dst, strconv.AppendInt(b[:0], n, 10))
}

func appendUint(dst []byte, n uint64) []byte {
	var b [20]byte
	return resp.AppendBulk(dst, strconv.AppendUint(b[:0], n, 10))
}

// appendStrings appends arguments.
func appendStrings(dst []byte, args ...string) []byte {
	for _, a := range args {
		dst = resp.AppendString(dst, a)
	}
	return dst
}

// appendCall appends the beginning of a call with further arguments.
func appendCall(dst []byte, head string, further int) []byte {
	return append(resp.AppendArray(dst, headArgs+further), head...)
}

// appendEntry appends the name of key's entry as an argument.
func (t *Tier) appendEntry(dst []byte, key string) []byte {
	dst = resp.AppendBulkHeader(dst, int64(t.names.EntryLen(key)))
	return append(t.names.AppendEntry(dst, key), "\r\n"...)
}
