package redis

import _ "embed"

// The scripts of the Tier. Each runs on the keys of one slot. Their texts say
// what they take and return; the layout of an entry is described at [Tier].
var (
	//go:embed lua/acquire.lua
	acquireText string
	//go:embed lua/put.lua
	putText string
	//go:embed lua/drop.lua
	dropText string
	//go:embed lua/extend.lua
	extendText string
	//go:embed lua/release.lua
	releaseText string
	//go:embed lua/renew.lua
	renewText string
	//go:embed lua/word.lua
	wordText string
	//go:embed lua/dropall.lua
	dropAllText string
	//go:embed lua/clean.lua
	cleanText string
)

// scripts are the texts with their digests.
type scripts struct {
	acquire, put, drop, extend, release, renew, word, dropAll, clean *Script
}

func newScripts() *scripts {
	return &scripts{
		acquire: NewScript(acquireText),
		put:     NewScript(putText),
		drop:    NewScript(dropText),
		extend:  NewScript(extendText),
		release: NewScript(releaseText),
		renew:   NewScript(renewText),
		word:    NewScript(wordText),
		dropAll: NewScript(dropAllText),
		clean:   NewScript(cleanText),
	}
}
