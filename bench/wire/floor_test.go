package wire

import (
	"bytes"
	"context"
	"io"
	"net"
	"strconv"
)

// bare is the floor: connections without a client. It writes commands that
// were built before and reads as many bytes as the replies have, which it
// knows; it looks at the first of them, for an error instead of a value.
type bare struct{ conns []net.Conn }

// pieceSize is the size of the buffer for what is larger than one value.
const pieceSize = 64 << 10

func openFloor(at endpoint) (family, error) {
	f := &bare{}
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
		get: f.get, set: f.set,
		getAll: f.getAll, setAll: f.setAll, mget: f.mget,
		getTo: f.getTo, setFrom: f.setFrom,
	}}}, nil
}

func (f *bare) close() {
	for _, c := range f.conns {
		c.Close()
	}
}

// ask writes a command and reads the first piece of what comes, which must
// begin with head or a part of it. It returns how much that is.
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

func (f *bare) get(j *job) call {
	commands := make([][]byte, len(j.keys))
	for k, key := range j.keys {
		commands[k] = command("GET", key)
	}
	head := header(j.size)
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

func (f *bare) set(j *job) call {
	commands := make([][]byte, len(j.keys))
	for k, key := range j.keys {
		commands[k] = command("SET", key, string(j.value(k)))
	}
	var bufs [maxGoroutines][64]byte
	return func(_ context.Context, g, i int) error {
		return f.acknowledge(g, commands[j.index(g, i)], bufs[g][:len(ok)])
	}
}

const ok = "+OK\r\n"

// acknowledge is ask for a command that is answered with OK. buf has room for
// no more.
func (f *bare) acknowledge(g int, command, buf []byte) error {
	n, err := f.ask(g, command, buf, []byte(ok))
	if err == nil {
		_, err = io.ReadFull(f.conns[g], buf[n:])
	}
	return err
}

func (f *bare) getAll(j *job) call {
	var commands []byte
	for _, key := range j.keys {
		commands = append(commands, command("GET", key)...)
	}
	head := header(j.size)
	return f.all(commands, head, len(j.keys)*(len(head)+j.size+2))
}

func (f *bare) setAll(j *job) call {
	var commands []byte
	for k, key := range j.keys {
		commands = append(commands, command("SET", key, string(j.value(k)))...)
	}
	return f.all(commands, []byte(ok), len(j.keys)*len(ok))
}

func (f *bare) mget(j *job) call {
	one := header(j.size)
	head := append([]byte("*"+strconv.Itoa(len(j.keys))+"\r\n"), one...)
	n := len(head) - len(one) + len(j.keys)*(len(one)+j.size+2)
	return f.all(command(append([]string{"MGET"}, j.keys...)...), head, n)
}

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
	ask, head, buf := command("GET", j.keys[0]), header(j.size), make([]byte, pieceSize)
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
	head := append([]byte("*3\r\n$3\r\nSET\r\n"+bulk(j.keys[0])), header(j.size)...)
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
				return f.acknowledge(0, buf, buf[:len(ok)])
			}
			if _, err := f.conns[0].Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	})(j)
}

// command is the bytes of a command.
func command(args ...string) []byte {
	b := []byte("*" + strconv.Itoa(len(args)) + "\r\n")
	for _, a := range args {
		b = append(b, bulk(a)...)
	}
	return b
}

func bulk(s string) string { return string(header(len(s))) + s + "\r\n" }

// header is what goes before a string of n bytes.
func header(n int) []byte { return []byte("$" + strconv.Itoa(n) + "\r\n") }
