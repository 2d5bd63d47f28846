package strata

import (
	"errors"
	"fmt"
	"slices"

	"github.com/strata-cache/strata/internal/envelope"
)

// Info is about one read; see [ReadInfo]. The zero Info means that there was no
// value.
type Info struct {
	// Tier is where the value came from: "L1", "L2", or "origin".
	Tier string
	// Stale says that the value's time is over, or that it was expired: it was
	// served because a load has failed.
	Stale bool
	// Shared says that another caller had asked for the value before.
	Shared bool
	// Degraded says that the value comes from L1 while the bus is silent, or
	// that L2 did not confirm it: another instance may have invalidated it.
	Degraded bool
}

// ReadInfo makes GetOrLoad say in to where the value came from. It is written
// before GetOrLoad returns, unless that returns an error.
func ReadInfo(to *Info) CallOption {
	return func(c *call) { c.info = to }
}

// infoOf is what the note of a flight's result says.
func infoOf(note uint8, shared bool) Info {
	return Info{
		Tier:     [...]string{"", "L1", "L2", "origin"}[note&noteTier],
		Stale:    note&noteStale != 0,
		Shared:   shared,
		Degraded: note&noteDegraded != 0,
	}
}

// inform writes i where the caller has asked for it.
func (o *call) inform(i Info) {
	if o.info != nil {
		*o.info = i
	}
}

// degraded reports whether what others drop is not told here at the moment.
func (c *Cache[K, V]) degraded() bool { return c.bus != nil && !c.link.Connected() }

var (
	errTooManyTags = fmt.Errorf("strata: more than %d tags", envelope.MaxTags)
	errTag         = fmt.Errorf("strata: a tag is empty or longer than %d bytes", envelope.MaxTag)
	errNoTags      = errors.New("strata: the Tier has no tags (remote.Tagger)")
)

// addTags adds to the tags of a call, or says what is wrong with them.
func (o *call) addTags(tags []string) {
	all := slices.Clone(o.tags)
	for _, t := range tags {
		if err := checkTag(t); err != nil {
			o.err = err
			return
		}
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
		if len(all) > envelope.MaxTags {
			o.err = errTooManyTags
			return
		}
	}
	o.tags = all
}

func checkTag(tag string) error {
	if tag == "" || len(tag) > envelope.MaxTag {
		return errTag
	}
	return nil
}

// callError says what is wrong with the options of a call.
func (c *Cache[K, V]) callError(o call) error {
	if o.err == nil && len(o.tags) > 0 && c.tier != nil && c.can.tag == nil {
		return errNoTags
	}
	return o.err
}
