package castier

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// Earlier versions count the drops of everything once for a whole fleet, on the servers to
// which the keys of the two counters belong. An instance of this version counts them on
// each server. So that instances of both can run side by side for the time of an upgrade,
// it adds to the counters of earlier versions too, if there are any, and carries the counts
// of these to each server before it uses the entries there.
//
// It adds 2³² at a time, and an earlier version 1: so it tells the counts of earlier
// versions from its own. Where no earlier version has run since the server was empty, the
// counters do not exist, and nothing is carried. A server that does not answer cannot have
// counted since its last answer.

// ownStep is the number that this version adds to a counter of earlier versions.
const ownStep = 1 << 32

// earlier has the counts of earlier versions: for each counter the number without the part
// that this version has added, or "" if there is no counter.
type earlier struct{ drops, expiries string }

// encodeEarlier returns the item in which a server has the counts carried to it.
func encodeEarlier(e earlier) []byte {
	return appendText(appendText([]byte(carriedMark), e.drops), e.expiries)
}

// decodeEarlier is the inverse of encodeEarlier. Another item has nothing carried.
func decodeEarlier(item []byte) earlier {
	d := decoder{rest: item}
	d.mark(carriedMark)
	e := earlier{d.text(), d.text()}
	if d.bad || len(d.rest) > 0 {
		return earlier{}
	}
	return e
}

// counted returns the part of a counter that earlier versions have added.
func counted(is Item) string {
	n, ok := number(is)
	if !ok {
		return "" // no counter exists, or earlier versions cannot use it
	}
	return strconv.FormatUint(n%ownStep, 16)
}

// behind returns the additions that carry the missing counts to a server, and the
// counts that the server has afterwards.
func (e earlier) behind(n *namespace, has earlier) (adds []Add, then earlier) {
	then = has
	if e.drops != "" && e.drops != has.drops {
		adds, then.drops = append(adds, n.counter(true, dropsItem, 1)), e.drops
	}
	if e.expiries != "" && e.expiries != has.expiries {
		adds, then.expiries = append(adds, n.counter(true, expiriesItem, 1)), e.expiries
	}
	return adds, then
}

// askEarlier asks for the counts of earlier versions, if it is time to.
func (t *Tier) askEarlier(ctx context.Context) {
	n := t.names
	if !n.several() {
		return
	}
	n.mu.Lock()
	fresh := n.earlier.fresh(time.Now())
	n.mu.Unlock()
	if !fresh {
		n.asideEarlier.ask(ctx, t.servers.Beside, t.readEarlier)
	}
}

// readEarlier asks for the counts of earlier versions.
func (t *Tier) readEarlier(ctx context.Context) error {
	n := t.names
	ticket := n.ticket()
	asked := time.Now()
	var found [2]string
	for i, kind := range []byte{dropsItem, expiriesItem} {
		key := n.prefix + string(kind)
		home := t.servers.Home(key)
		items, errs, err := t.get(ctx, home, []string{key})
		if err = errors.Join(err, errs.first()); err != nil {
			return t.of(home, err)
		}
		found[i] = counted(items[0])
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.earlier.keep(ticket, asked, earlier{found[0], found[1]})
	return nil
}

// carry brings a server up to the counts of earlier versions. r has the counters of the
// server, and had the counts carried to it before.
func (t *Tier) carry(ctx context.Context, r *request, had Item) error {
	n, has := t.names, decodeEarlier(had.Value)
	e, asked := n.knownEarlier()
	if !e.differs(has) {
		return nil
	}
	if asked.Before(r.asked) { // another instance may have carried newer counts
		n.asideEarlier.ask(ctx, t.servers.Beside, t.readEarlier)
		if e, asked = n.knownEarlier(); asked.Before(r.asked) {
			e = e.ahead(has)
		}
	}
	adds, then := e.behind(n, has)
	if len(adds) == 0 {
		return nil
	}
	sums, err := t.add(ctx, r.server, adds)
	if err != nil {
		return err
	}
	for i := range adds {
		if adds[i].Key == n.counter(true, dropsItem, 0).Key {
			r.drops = sums[i]
		} else {
			r.expiries = sums[i]
		}
	}
	// If this write fails, the counts are carried again, which drops more than necessary.
	_, _, err = t.swap(ctx, r.server, []Swap{{Key: n.prefix + string(byte(carriedItem)), Value: encodeEarlier(then), Version: had.Version}})
	return err
}

// knownEarlier returns the last answer with the counts of earlier versions, and the time
// of its question.
func (n *namespace) knownEarlier() (e earlier, asked time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.earlier.value, n.earlier.asked
}

// differs reports whether e has a count, of drops or of expiries, other than
// the count in has.
func (e earlier) differs(has earlier) bool {
	return e.drops != "" && e.drops != has.drops || e.expiries != "" && e.expiries != has.expiries
}

// ahead returns the counts of e newer than the counts of has.
func (e earlier) ahead(has earlier) earlier {
	newer := func(a, b string) string {
		x, _ := strconv.ParseUint(a, 16, 32)
		y, err := strconv.ParseUint(b, 16, 32)
		if err == nil && int32(uint32(x)-uint32(y)) <= 0 {
			return ""
		}
		return a
	}
	return earlier{newer(e.drops, has.drops), newer(e.expiries, has.expiries)}
}

// tellEarlier returns the addition by which earlier versions hear of a drop of everything
// on a server. It returns none if the counter has another server.
func (t *Tier) tellEarlier(server int, kind byte) []Add {
	key := t.names.prefix + string(kind)
	if !t.names.several() || t.servers.Home(key) != server {
		return nil
	}
	return []Add{{Key: key, Delta: ownStep}}
}
