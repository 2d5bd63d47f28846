// Package recorded has conversations between the client and a real Redis
// server, byte by byte, and plays the server's part again over a network in
// memory that can be cut or stalled anywhere.
package recorded

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/strata-cache/strata/internal/netsim"
)

// Turn is what a client sends, and what the server answers to it.
type Turn struct {
	Client, Server string
}

// Conversation is what was said over the connections of a client, in the order
// in which they were opened, and what the client made of it.
type Conversation struct {
	Conns   [][]Turn
	Results []string
}

// Size is the number of bytes that the server says over the i-th connection.
func (c *Conversation) Size(i int) (n int) {
	for _, t := range c.Conns[i] {
		n += len(t.Server)
	}
	return n
}

// String is the conversation as a text, which [Parse] reads.
func (c *Conversation) String() string {
	var b strings.Builder
	for _, turns := range c.Conns {
		b.WriteString("connection\n")
		for _, t := range turns {
			fmt.Fprintf(&b, "> %q\n< %q\n", t.Client, t.Server)
		}
	}
	for _, r := range c.Results {
		fmt.Fprintf(&b, "= %q\n", r)
	}
	return b.String()
}

// Parse reads the text of a conversation.
func Parse(text string) (*Conversation, error) {
	c := &Conversation{}
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if line == "connection" {
			c.Conns = append(c.Conns, nil)
			continue
		}
		kind, quoted, _ := strings.Cut(line, " ")
		said, err := strconv.Unquote(quoted)
		if err != nil || kind != "=" && len(c.Conns) == 0 {
			return nil, fmt.Errorf("recorded: line %d is none of a conversation", n+1)
		}
		last := len(c.Conns) - 1
		switch kind {
		case ">":
			c.Conns[last] = append(c.Conns[last], Turn{Client: said})
		case "<":
			turns := c.Conns[last]
			turns[len(turns)-1].Server = said
		case "=":
			c.Results = append(c.Results, said)
		default:
			return nil, fmt.Errorf("recorded: line %d is none of a conversation", n+1)
		}
	}
	return c, nil
}

// Read reads the conversation of a play from a folder.
func Read(dir, name string) (*Conversation, error) {
	text, err := os.ReadFile(filepath.Join(dir, name+".txt"))
	if err != nil {
		return nil, err
	}
	return Parse(string(text))
}

// Write writes the conversation of a play to a folder.
func (c *Conversation) Write(dir, name string) error {
	return os.WriteFile(filepath.Join(dir, name+".txt"), []byte(c.String()), 0o644)
}

// Recorder opens connections that are recorded.
type Recorder struct {
	mu    sync.Mutex // guards below
	conns []*[]Turn
}

// Dial has the form of redis.Options.DialContext.
func (r *Recorder) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	turns := &[]Turn{}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, turns)
	return &recording{Conn: nc, r: r, turns: turns}, nil
}

// Conversation is what was said so far.
func (r *Recorder) Conversation() *Conversation {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &Conversation{}
	for _, turns := range r.conns {
		c.Conns = append(c.Conns, append([]Turn(nil), *turns...))
	}
	return c
}

type recording struct {
	net.Conn
	r     *Recorder
	turns *[]Turn
}

// Write implements net.Conn. What is written without an answer in between is
// one turn.
func (c *recording) Write(p []byte) (int, error) {
	c.r.mu.Lock()
	turns := *c.turns
	if n := len(turns); n > 0 && turns[n-1].Server == "" {
		turns[n-1].Client += string(p)
	} else {
		*c.turns = append(turns, Turn{Client: string(p)})
	}
	c.r.mu.Unlock()
	return c.Conn.Write(p)
}

// Read implements net.Conn.
func (c *recording) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	turns := *c.turns
	if len(turns) == 0 {
		*c.turns = append(turns, Turn{})
		turns = *c.turns
	}
	turns[len(turns)-1].Server += string(p[:n])
	return n, err
}

// Player plays the server's part.
type Player struct {
	// Conversation is what is played. Connections beyond it are refused.
	Conversation *Conversation
	// OnDial, if set, is called with the client's end of the i-th connection.
	OnDial func(i int, client *netsim.Conn)

	mu    sync.Mutex // guards below
	dials int
	wrong string
	runs  sync.WaitGroup
}

// Dial has the form of redis.Options.DialContext.
func (p *Player) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.dials
	if p.dials++; i >= len(p.Conversation.Conns) {
		return nil, fmt.Errorf("recorded: connection %d is none of the conversation", i+1)
	}
	client, server := netsim.Pair(0)
	if p.OnDial != nil {
		p.OnDial(i, client)
	}
	p.runs.Go(func() { p.play(server, p.Conversation.Conns[i]) })
	return client, nil
}

// play answers turn by turn, and then waits for the end.
func (p *Player) play(c net.Conn, turns []Turn) {
	defer c.Close()
	for _, t := range append(append([]Turn(nil), turns...), Turn{Client: "the end"}) {
		buf := make([]byte, len(t.Client))
		for got := 0; got < len(buf); {
			n, err := c.Read(buf[got:])
			if err != nil {
				return // the client has gone
			}
			if got += n; string(buf[:got]) != t.Client[:got] {
				p.mu.Lock()
				p.wrong = fmt.Sprintf("%q instead of %q", buf[:got], t.Client)
				p.mu.Unlock()
				return
			}
		}
		if _, err := c.Write([]byte(t.Server)); err != nil {
			return
		}
	}
}

// Close waits for all connections, which the client has closed, and returns what
// a client has said that is none of the conversation.
func (p *Player) Close() (wrong string) {
	p.runs.Wait()
	return p.wrong
}
