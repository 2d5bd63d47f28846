package layout

import _ "embed"

// The scripts. Each runs on the keys of one slot; its text says what it takes
// and returns.
var (
	//go:embed lua/acquire.lua
	Acquire string
	//go:embed lua/put.lua
	Put string
	//go:embed lua/drop.lua
	Drop string
	//go:embed lua/extend.lua
	Extend string
	//go:embed lua/release.lua
	Release string
	//go:embed lua/renew.lua
	Renew string
	//go:embed lua/word.lua
	Word string
	//go:embed lua/dropall.lua
	DropAll string
	//go:embed lua/clean.lua
	Clean string
)
