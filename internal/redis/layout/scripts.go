package layout

import _ "embed"

// The scripts. Each runs on the keys of one slot, or on none; its text lists its
// arguments and results.
var (
	//go:embed lua/acquire.lua
	Acquire string
	//go:embed lua/fill.lua
	Fill string
	//go:embed lua/put.lua
	Put string
	//go:embed lua/token.lua
	Token string
	//go:embed lua/set.lua
	Set string
	//go:embed lua/drop.lua
	Drop string
	//go:embed lua/extend.lua
	Extend string
	//go:embed lua/release.lua
	Release string
	//go:embed lua/renew.lua
	Renew string
	//go:embed lua/clean.lua
	Clean string
	//go:embed lua/changes.lua
	Changes string

	//go:embed lua/space.lua
	space string
	//go:embed lua/namespace.lua
	namespace string
	//go:embed lua/dropall.lua
	dropAll string
	//go:embed lua/droptags.lua
	dropTags string
)

// Namespace is the script that reads the namespace state.
func Namespace() string { return space + namespace }

// DropAll is the script that drops everything.
func DropAll() string { return space + dropAll }

// DropTags is the script that drops tags. It makes the table of tags if the
// table is missing.
func DropTags() string { return space + dropTags }

// MaxTags bounds the drops of tags in the table. Beyond it the server forgets
// all of them, and every tag counts as just dropped.
const MaxTags = 100_000
