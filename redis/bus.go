package redis

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/strata-cache/strata/remote"
)

// channelOf is the pub/sub channel of a cache.
func channelOf(name string) string { return "strata:" + name }

// Bus carries invalidations over Redis pub/sub. It is a [remote.Bus]. What a
// [Tier] on the same server drops is announced by the Tier itself.
//
// A message is a line of text:
//
//	1 <kind> <instance, hex> <lane> <sequence> <key>
//
// where 1 is the version of this form. Lines of other forms are ignored.
type Bus struct {
	c *Client
}

// NewBus returns a bus on c's server. Each follower has a connection of its
// own. The client stays the caller's to close, after the followers were
// stopped.
func NewBus(c *Client) *Bus { return &Bus{c: c} }

// Publish sends messages in one round trip.
func (b *Bus) Publish(ctx context.Context, ms []remote.Message) error {
	if len(ms) == 0 {
		return ctx.Err()
	}
	p := b.c.Pipeline()
	for i := range ms {
		m := &ms[i]
		text := withLane(messageHead(m.Kind, base16(m.From)), int(m.Lane)) + strconv.FormatUint(m.Seq, 10) + " " + m.Key
		p.Add("PUBLISH", channelOf(m.Name), text)
	}
	replies, err := p.Do(ctx)
	if err != nil {
		return err
	}
	for _, r := range replies {
		if err := r.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Follow calls f for everything that happens to the named cache. A lost
// connection is a Gap, and replaced until stop is called.
func (b *Bus) Follow(name string, f func(remote.Event)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	s, err := b.c.Subscribe(ctx, channelOf(name))
	if err != nil { // the client is closed: nothing will ever arrive
		cancel()
		return func() {}
	}
	var wg sync.WaitGroup
	wg.Go(func() { deliver(ctx, s, name, f) })
	return func() {
		cancel()
		_ = s.Close() // always nil
		wg.Wait()
	}
}

// deliver passes on the events of s until it ends.
func deliver(ctx context.Context, s *Subscription, name string, f func(remote.Event)) {
	for {
		e, err := s.Next(ctx)
		if err != nil {
			return
		}
		switch e.Kind {
		case Subscribed:
			f(remote.Event{State: remote.Connected})
		case Gap:
			f(remote.Event{State: remote.Gap})
		case Received:
			if m, ok := parseMessage(name, string(e.Payload)); ok {
				f(remote.Event{State: remote.Delivered, Messages: []remote.Message{m}})
			}
		}
	}
}

// messageHead is the beginning of a message, up to the lane.
func messageHead(k remote.Kind, from string) string {
	return "1 " + strconv.Itoa(int(k)) + " " + from + " "
}

func withLane(head string, lane int) string { return head + strconv.Itoa(lane) + " " }

// parseMessage is the inverse of what the scripts and Publish write.
func parseMessage(name, text string) (m remote.Message, ok bool) {
	var field [5]string
	for i := range field {
		if field[i], text, ok = strings.Cut(text, " "); !ok {
			return remote.Message{}, false
		}
	}
	kind, err1 := strconv.ParseUint(field[1], 10, 8)
	from, err2 := strconv.ParseUint(field[2], 16, 64)
	lane, err3 := strconv.ParseUint(field[3], 10, 16)
	seq, err4 := strconv.ParseUint(field[4], 10, 64)
	if field[0] != "1" || err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		return remote.Message{}, false
	}
	m = remote.Message{Name: name, Kind: remote.Kind(kind), From: from, Key: text, Lane: uint16(lane), Seq: seq}
	return m, m.Kind >= remote.Dropped && m.Kind <= remote.AllDropped
}
