package recent

import (
	"encoding/binary"
	"hash/crc32"
	"reflect"
	"testing"
)

// TestRecordOfRecentDropsIsBoundedAndWhole: it keeps the latest drops in the order of their numbers,
// comes back from its item as it was, and not from a damaged one.
func TestRecordOfRecentDropsIsBoundedAndWhole(t *testing.T) {
	var all []Drop
	for i := range uint64(200) {
		at := i ^ 1 // pairs in the wrong order
		all = With(all, Drop{Span: Span{10 * at, 10*at + 10}, tags: []uint32{uint32(at)}})
	}
	item := Encode(all)
	if len(all) != MaxTags || all[0].To != 2000 || all[MaxTags-1].From != 2000-10*MaxTags || len(item) > 2<<10 {
		t.Errorf("%d drops of %+v to %+v, %d bytes", len(all), all[len(all)-1], all[0], len(item))
	}
	if again := Decode(item); !reflect.DeepEqual(again, all) {
		t.Errorf("%+v is read as %+v", all, again)
	}
	for i := range 8 * len(item) {
		item[i/8] ^= 1 << (i % 8)
		if again := Decode(item); again != nil {
			t.Fatalf("with bit %d damaged it is read as %+v", i, again)
		}
		item[i/8] ^= 1 << (i % 8)
	}
}

// TestNumbersThatTheClockGivesTwiceSpareNoTag has a clock that goes back, and drops of "t" before and
// after.
func TestNumbersThatTheClockGivesTwiceSpareNoTag(t *testing.T) {
	drop := func(all []Drop, from, to uint64, name string) []Drop {
		return With(all, New(Span{from, to}, []string{name}))
	}
	all := drop(drop(nil, 5, 10, "a"), 10, 20, "t")
	if !Spares(all, "u", 10, 20) || !Spares(all, "t", 20, 20) || Spares(all, "t", 10, 20) || Spares(all, "u", 7, 20) || Spares(all, "u", 10, 21) {
		t.Errorf("%+v", all)
	}
	all = drop(drop(all, 8, 15, "a"), 15, 30, "a")
	for since := range uint64(30) {
		if Spares(all, "t", since, 30) {
			t.Errorf("%+v spares leases from %d", all, since)
		}
	}
	if all = drop(all, 30, 31, "a"); !Spares(all, "t", 30, 31) {
		t.Errorf("%+v spares no later leases", all)
	}
}

// FuzzRecord reads any item, with a checksum that is right: a record that is read is the same if it is
// written and read again, and one more drop leaves it within its bounds.
func FuzzRecord(f *testing.F) {
	all := With(With(nil, New(Span{1, 3}, []string{"a", "b"})), New(Span{3, 9}, []string{"c"}))
	item := Encode(all)
	f.Add(item[:len(item)-crc32.Size], "a", uint64(2), uint64(9))
	item = Encode([]Drop{{Span: Span{To: 1 << 63}}})
	f.Add(item[:len(item)-crc32.Size], "", uint64(0), uint64(1<<63))
	f.Fuzz(func(t *testing.T, item []byte, name string, since, clock uint64) {
		all := Decode(binary.BigEndian.AppendUint32(item, crc32.ChecksumIEEE(item)))
		if again := Decode(Encode(all)); !reflect.DeepEqual(again, all) {
			t.Errorf("%+v is read as %+v", all, again)
		}
		if Spares(all, name, since, clock) && since < clock && !Has(all, clock) {
			t.Errorf("%+v spares %q from %d to %d, which no drop has", all, name, since, clock)
		}
		if since < clock {
			all = With(all, New(Span{since, clock}, []string{name}))
			if n := len(Encode(all)); n > 2<<10 || len(all) == 0 && len(name) > 0 {
				t.Errorf("%d bytes of %d drops", n, len(all))
			}
		}
	})
}

// TestRecordOfAClockThatWasAheadMakesRoom fills the record with drops by a clock that is lost then.
func TestRecordOfAClockThatWasAheadMakesRoom(t *testing.T) {
	var all []Drop
	for i := range uint64(2 * MaxTags) {
		all = With(all, New(Span{From: 1e9 + i, To: 1e9 + i + 1}, []string{"ahead"}))
	}
	for i := range uint64(10) {
		all = With(all, New(Span{From: 100 + i, To: 101 + i}, []string{"a"}))
	}
	if !Spares(all, "b", 105, 110) || Spares(all, "a", 105, 110) {
		t.Error("the drops of the new clock are not recorded")
	}
}
