package transfer

import (
	"github.com/strata-cache/strata/internal/observe"
)

// Parts joins the parts of a cache that the packages of this module need beside its
// public methods. A strata.Inside is made of a Parts, and converted back by the packages
// that use it. The zero Parts has no cache.
type Parts struct {
	panel  observe.Panel
	source Source
}

// NewParts returns the Parts of one cache. Either may be nil if no function needs it.
func NewParts(p observe.Panel, s Source) Parts { return Parts{p, s} }

// Panel returns the cache for package admin.
func (p Parts) Panel() observe.Panel { return p.panel }

// Source returns the cache for package snapshot.
func (p Parts) Source() Source { return p.source }
