//go:build !race && (amd64 || arm64)

package l1

// lockedHits says whether hits are counted by atomic additions. See striped.
const lockedHits = false
