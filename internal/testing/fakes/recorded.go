// Conversations between the client and a real Redis server are recorded byte by byte. The server's
// part is replayed over a network in memory that can be cut or stalled at any byte.

package fakes

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/strata-cache/strata/internal/testing/netsim"
)

// Turn is the bytes that a client sends, and the bytes of the server's reply.
type Turn struct {
	Client, Server string
}

// Conversation is the turns of each connection of a client, in the order in
// which the connections were opened, and the results of the client's calls.
type Conversation struct {
	Conns   [][]Turn
	Results []string
}

// Size returns the number of bytes that the server sends over the i-th
// connection.
func (c *Conversation) Size(i int) (n int) {
	for _, t := range c.Conns[i] {
		n += len(t.Server)
	}
	return n
}

// String returns the conversation as a text, which [Parse] reads.
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
			return nil, fmt.Errorf("recorded: line %d is not part of a conversation", n+1)
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
			return nil, fmt.Errorf("recorded: line %d is not part of a conversation", n+1)
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

// Recorder opens connections and records their bytes.
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

// Conversation returns the conversation so far.
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

// Write implements net.Conn. Writes without a reply in between are one turn.
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

// Player replays the server's part of a conversation.
type Player struct {
	// Conversation is replayed. Further connections are refused.
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
		return nil, fmt.Errorf("recorded: connection %d is not part of the conversation", i+1)
	}
	client, server := netsim.Pair(0)
	if p.OnDial != nil {
		p.OnDial(i, client)
	}
	p.runs.Go(func() { p.play(server, p.Conversation.Conns[i]) })
	return client, nil
}

// play replies turn by turn, and then waits for the end of the connection.
func (p *Player) play(c net.Conn, turns []Turn) {
	defer c.Close()
	for _, t := range append(append([]Turn(nil), turns...), Turn{Client: "the end"}) {
		buf := make([]byte, len(t.Client))
		for got := 0; got < len(buf); {
			n, err := c.Read(buf[got:])
			if err != nil {
				return // the client has closed the connection
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

// Close waits until the client has closed all connections. It returns a
// description of the bytes that differ from the conversation, or an empty
// string.
func (p *Player) Close() (wrong string) {
	p.runs.Wait()
	return p.wrong
}
