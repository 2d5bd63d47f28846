package wire

import (
	"bytes"
	"context"
	"io"
	"net"
)

// bare is the floor: connections without a client. It writes prepared commands
// and reads replies of known length. It looks only at the first bytes, to see
// an error in place of a value.
type bare struct {
	dialect
	conns []net.Conn
}

// dialect is the way in which a floor speaks to a server. A value stands between
// its head and CRLF, in a reply and in a command.
type dialect struct {
	get  func(key string) []byte
	head func(size int) []byte
	put  func(key string, size int) []byte
	ok   string // the reply to put
	// getMany and putMany return the commands for all keys of a job, the
	// beginning of the reply, and its length in bytes.
	getMany, putMany func(j *job) (commands, head []byte, n int)
}

// pieceSize is the size in bytes of the buffer for streams, and for replies with many values.
const pieceSize = 64 << 10

func openFloor(d dialect) func(endpoint) (family, error) {
	return func(at endpoint) (family, error) {
		f := &bare{dialect: d}
		for range maxGoroutines {
			c, err := net.Dial(at.network, at.addr)
			if err != nil {
				f.close()
				return family{}, err
			}
			f.conns = append(f.conns, c)
		}
		return family{close: f.close, subjects: []subject{{
			name: "floor", kind: floor,
			get: f.getOne, set: f.setOne,
			getAll: f.getAll, setAll: f.setAll, mget: f.mget,
			getTo: f.getTo, setFrom: f.setFrom,
			setGet: both(f.setOne, f.getOne),
		}, {
			name: "floor-one-write", kind: aside,
			setGet: f.setGet,
		}}}, nil
	}
}

func (f *bare) close() {
	for _, c := range f.conns {
		c.Close()
	}
}

// ask writes a command and reads the first piece of the reply, which must begin
// with head or a part of it. It returns the length of the piece.
func (f *bare) ask(g int, command, buf, head []byte) (int, error) {
	c := f.conns[g]
	if _, err := c.Write(command); err != nil {
		return 0, err
	}
	const shortest = 4 // no reply has less
	n, err := io.ReadAtLeast(c, buf, shortest)
	if err == nil && !bytes.Equal(buf[:min(n, len(head))], head[:min(n, len(head))]) {
		err = errWrong
	}
	return n, err
}

func (f *bare) getOne(j *job) call {
	commands := make([][]byte, len(j.keys))
	for k, key := range j.keys {
		commands[k] = f.get(key)
	}
	return f.answers(j, commands, f.head(j.size))
}

// setGet writes both commands at once.
func (f *bare) setGet(j *job) call {
	commands := make([][]byte, len(j.keys))
	for k, key := range j.keys {
		commands[k] = append(f.set(j, k), f.get(key)...)
	}
	return f.answers(j, commands, append([]byte(f.ok), f.head(j.size)...))
}

// answers writes commands, for each of which the server replies with head and a value.
func (f *bare) answers(j *job, commands [][]byte, head []byte) call {
	n := len(head) + j.size + 2
	var bufs scratch
	return func(_ context.Context, g, i int) error {
		k, buf := j.index(g, i), bufs[g].b
		if buf == nil {
			buf = make([]byte, n)
			bufs[g].b = buf
		}
		got, err := f.ask(g, commands[k], buf, head)
		if err == nil {
			_, err = io.ReadFull(f.conns[g], buf[got:])
		}
		return j.check(k, buf[len(head):n-2], err)
	}
}

// set is the command for key k of a job, with its value.
func (f *bare) set(j *job, k int) []byte { return f.command(j.keys[k], j.value(k)) }

// command is put with its value.
func (d *dialect) command(key string, value []byte) []byte {
	return append(append(d.put(key, len(value)), value...), "\r\n"...)
}

func (f *bare) setOne(j *job) call {
	commands := make([][]byte, len(j.keys))
	for k := range j.keys {
		commands[k] = f.set(j, k)
	}
	var bufs [maxGoroutines][64]byte
	return func(_ context.Context, g, i int) error {
		return f.acknowledge(g, commands[j.index(g, i)], bufs[g][:len(f.ok)])
	}
}

// acknowledge is ask for a command that the server answers with ok. buf has the length of ok.
func (f *bare) acknowledge(g int, command, buf []byte) error {
	n, err := f.ask(g, command, buf, []byte(f.ok))
	if err == nil {
		_, err = io.ReadFull(f.conns[g], buf[n:])
	}
	return err
}

func (f *bare) getAll(j *job) call {
	var commands []byte
	for _, key := range j.keys {
		commands = append(commands, f.get(key)...)
	}
	head := f.head(j.size)
	return f.all(commands, head, len(j.keys)*(len(head)+j.size+2))
}

func (f *bare) setAll(j *job) call { return f.all(f.putMany(j)) }
func (f *bare) mget(j *job) call   { return f.all(f.getMany(j)) }

// all writes commands in one piece and then reads n bytes.
func (f *bare) all(commands, head []byte, n int) call {
	buf := make([]byte, min(n, pieceSize))
	return func(context.Context, int, int) error {
		got, err := f.ask(0, commands, buf, head)
		for left := n - got; err == nil && left > 0; left -= got {
			got, err = f.conns[0].Read(buf[:min(left, len(buf))])
		}
		return err
	}
}

// getTo is for jobs with one key, and so is setFrom.
func (f *bare) getTo(j *job) call {
	ask, head, buf := f.get(j.keys[0]), f.head(j.size), make([]byte, pieceSize)
	return streams(func(_ context.Context, _ string, w io.Writer) error {
		left := j.size + len("\r\n")
		n, err := f.ask(0, ask, buf[:min(len(buf), len(head)+left)], head)
		piece := buf[min(n, len(head)):n]
		for err == nil {
			if value := left - len("\r\n"); value > 0 {
				_, err = w.Write(piece[:min(value, len(piece))])
			}
			if left -= len(piece); err != nil || left == 0 {
				break
			}
			n, err = f.conns[0].Read(buf[:min(left, len(buf))])
			piece = buf[:n]
		}
		return err
	})(j)
}

func (f *bare) setFrom(j *job) call {
	head := f.put(j.keys[0], j.size)
	buf := make([]byte, 0, pieceSize+len("\r\n"))
	return sources(func(_ context.Context, _ string, r io.Reader, n int64) error {
		buf = append(buf[:0], head...)
		for left := int(n); ; {
			space := buf[len(buf):pieceSize]
			m, err := io.ReadFull(r, space[:min(left, len(space))])
			if err != nil {
				return err
			}
			buf = buf[:len(buf)+m]
			if left -= m; left == 0 {
				buf = append(buf, "\r\n"...)
				return f.acknowledge(0, buf, buf[:len(f.ok)])
			}
			if _, err := f.conns[0].Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	})(j)
}
