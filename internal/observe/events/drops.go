package events

// Dropped names the dropped keys or tags, and the instance that dropped them.
type Dropped int

// The kinds of drops: by callers of this instance, or heard from others.
const (
	KeysInvalidated Dropped = iota
	TagsInvalidated
	AllInvalidated
	KeysHeard
	AllHeard
)

// The texts of drops: hard ones, and soft ones. They are read-only.
var (
	hard = [...]string{
		"keys invalidated: %d", "tags invalidated: %d", "everything invalidated, times: %d",
		"drops heard from other instances: %d", "everything invalidated by another instance, times: %d",
	}
	soft = [...]string{
		"keys expired: %d", "tags expired: %d", "everything expired, times: %d",
		"drops heard from other instances: %d", "everything expired by another instance, times: %d",
	}
)

// Drops notes n drops at a time, as [Journal.Count] does.
func (j *Journal) Drops(what Dropped, isSoft bool, n int, at int64) {
	if isSoft {
		j.Count(soft[what], n, at)
		return
	}
	j.Count(hard[what], n, at)
}
