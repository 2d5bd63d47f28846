// Announcements of drops, for instances that have the values in L1. A tier that announces its
// drops itself needs none.
// Invariant: the message about a drop that L2 has confirmed is published, or pending in a queue of messages. The drop
// itself is over then: repeated, it would remove newer values from L2, as long as the bus does not
// answer. Without an L2 the message is the drop.

package l2

import (
	"context"
	"slices"

	"github.com/strata-cache/strata/internal/cache/retry"
	"github.com/strata-cache/strata/remote"
)

// news are the announcements.
type news struct {
	byTier   bool         // the tier announces its drops itself
	unsent   *retry.Queue // of messages about confirmed drops; nil without them
	bus      remote.Bus
	space    string
	instance uint64
}

// pending returns the number of pending messages.
func (n *news) pending() int {
	if n.unsent == nil {
		return 0
	}
	return n.unsent.Len()
}

// unsaid is the error of a drop that L2 has confirmed, and the bus has not: its message is pending.
type unsaid struct{ error }

// Unwrap returns the error of the bus.
func (e unsaid) Unwrap() error { return e.error }

// confirmedByL2 reports whether L2 has confirmed all that failed with err.
func confirmedByL2(err error) bool {
	_, is := err.(unsaid) //nolint:errorlint // joined with others it is not all of the error
	return is
}

// unconfirmed returns errs without the ones of confirmed keys.
func unconfirmed(errs remote.KeyErrors) remote.KeyErrors {
	some := slices.Clone(errs)
	for i, err := range some {
		if confirmedByL2(err) {
			some[i] = nil
		}
	}
	return some
}

// withoutUnsaid is the error of an attempt at pending drops. Drops that L2 has confirmed are pending no longer.
func withoutUnsaid(err error) error {
	some, partly := err.(remote.KeyErrors) //nolint:errorlint // wrapped it is the error of all keys
	switch {
	case confirmedByL2(err):
		return nil
	case partly:
		return remote.JoinKeys(unconfirmed(some))
	}
	return err
}

// announces reports whether the cache announces drops: there is a bus, and the
// tier does not announce them itself.
func (s *Store) announces() bool { return s.o.Bus != nil && !s.news.byTier }

// say publishes messages. If the bus does not take them, and L2 has confirmed their drops, later adds these to the
// queue of messages, and the error is unsaid.
func (n *news) say(ctx context.Context, ms []remote.Message, later func(*retry.Queue, retry.When) bool) error {
	err := n.bus.Publish(ctx, ms)
	if err == nil || n.unsent == nil || !later(n.unsent, whenFailed(ctx)) {
		return err
	}
	return unsaid{err}
}

// sayAgain is one more attempt to publish messages.
func (n *news) sayAgain(ctx context.Context, a retry.Attempt) error {
	ms := n.messages(a.Drops)
	switch {
	case a.All:
		ms = n.messageAll(a.Soft)
	case len(a.Tags) > 0:
		ms = n.messagesOfTags(a.Tags, a.Soft)
	}
	return n.bus.Publish(ctx, ms)
}

// announceDrops announces drops of keys.
func (n *news) announceDrops(ctx context.Context, drops []remote.Drop) error {
	return n.say(ctx, n.messages(drops), func(q *retry.Queue, when retry.When) bool { return q.Add(drops, when) })
}

// announceAll announces a drop of everything.
func (n *news) announceAll(ctx context.Context, soft bool) error {
	return n.say(ctx, n.messageAll(soft), func(q *retry.Queue, when retry.When) bool { return q.AddAll(soft, when) })
}

// announceTags announces drops of tags.
func (n *news) announceTags(ctx context.Context, tags []string, soft bool) error {
	return n.say(ctx, n.messagesOfTags(tags, soft), func(q *retry.Queue, when retry.When) bool { return q.AddTags(tags, soft, when) })
}

// Announce announces the drops of a Put, unless the tier has done so. The message is pending if the bus does not take
// it; the error comes from the bus.
func (s *Store) Announce(ctx context.Context, drops []remote.Drop) error {
	if !s.announces() {
		return nil
	}
	err := s.news.announceDrops(ctx, drops)
	if err != nil && !confirmedByL2(err) {
		s.pending.Add(drops, whenFailed(ctx))
	}
	return err
}

// AnnounceWritten is [Store.Announce] for written values. The error is an *Unconfirmed.
func (s *Store) AnnounceWritten(ctx context.Context, drops []remote.Drop) error {
	if err := s.Announce(ctx, drops); err != nil {
		return s.Unconfirmed(ctx, err)
	}
	return nil
}

// Publish announces drops without sending them to L2.
func (s *Store) Publish(ctx context.Context, drops []remote.Drop) {
	ctx, cancel := s.Bound(ctx)
	defer cancel()
	_ = s.o.Bus.Publish(ctx, s.news.messages(drops)) // other instances keep such values for a short time only
}

func (n *news) messages(drops []remote.Drop) []remote.Message {
	ms := make([]remote.Message, len(drops))
	for i, d := range drops {
		ms[i] = n.message(remote.Dropped, remote.Expired, d.Soft)
		ms[i].Key, ms[i].Hold = d.Key, d.Hold
	}
	return ms
}

func (n *news) messageAll(soft bool) []remote.Message {
	return []remote.Message{n.message(remote.AllDropped, remote.AllExpired, soft)}
}

func (n *news) messagesOfTags(tags []string, soft bool) []remote.Message {
	ms := make([]remote.Message, len(tags))
	for i, t := range tags {
		ms[i] = n.message(remote.TagDropped, remote.TagExpired, soft)
		ms[i].Key = t
	}
	return ms
}

// message is a message of this instance, of the kind hard or soft.
func (n *news) message(hard, soft remote.Kind, isSoft bool) remote.Message {
	m := remote.Message{Name: n.space, Kind: hard, From: n.instance}
	if isSoft {
		m.Kind = soft
	}
	return m
}
