// Package inside joins the parts of a cache that the packages of this module need beside its
// public methods. A strata.Inside is made of a [Parts], and converted back by the packages that
// use it.
package inside

import (
	"github.com/strata-cache/strata/internal/observe/panel"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
)

// Parts is one cache. The zero Parts has no cache.
type Parts struct {
	panel  panel.Panel
	source transfer.Source
}

// New returns the Parts of one cache. Either may be nil if no function needs it.
func New(p panel.Panel, s transfer.Source) Parts { return Parts{p, s} }

// Panel returns the cache for package admin.
func (p Parts) Panel() panel.Panel { return p.panel }

// Source returns the cache for package snapshot.
func (p Parts) Source() transfer.Source { return p.source }
