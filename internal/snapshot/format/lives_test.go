package format_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/snapshot/format"
)

// TestLivesOfAnEntryAreInTheStream writes entries with and without lives of their own, in two
// sections with mixed records: one record is longer than a frame, and one fails.
func TestLivesOfAnEntryAreInTheStream(t *testing.T) {
	own := func(r, e, m time.Duration) *expiry.Own { return &expiry.Own{Revalidate: r, OnError: e, Memory: m} }
	entries := []*format.Entry{
		{Key: []byte("plain"), Fresh: time.Minute, Left: time.Hour, Weight: 1, Age: format.Unknown, Value: []byte("v")},
		{Key: []byte("own"), Fresh: time.Minute, Left: 2 * time.Minute, Weight: 1, Age: format.Unknown, Value: []byte("v"), Own: own(expiry.None, time.Minute, 0)},
		{Key: []byte("fails"), Fresh: time.Minute, Left: 2 * time.Minute, Weight: 1, Age: format.Unknown, Own: own(1, 2, 3)},
		{Key: []byte("after"), Fresh: time.Minute, Left: time.Hour, Weight: 1, Age: format.Unknown, Value: []byte("v")},
		{Key: []byte("large"), Fresh: -time.Second, Left: time.Minute, Weight: 1, Age: format.Unknown, Value: bytes.Repeat([]byte("v"), 200<<10), Own: own(time.Second, math.MaxInt64, time.Millisecond)},
		{Key: []byte("endless"), Fresh: time.Minute, Left: format.Forever, Weight: 1, Age: format.Unknown, Value: []byte("v"), Own: own(0, 0, expiry.None)},
		{Key: []byte("absent"), Fresh: time.Minute, Left: time.Minute, Weight: 1, Age: format.Unknown, NotFound: true, Own: own(1, 1, 1)},
	}
	var b bytes.Buffer
	w := format.NewWriter(&b, format.Header{Created: time.UnixMilli(1), Mode: format.Values})
	for _, name := range []string{"a", "b"} {
		if _, err := w.Section(format.Section{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range entries {
		for section := range 2 {
			value := func(dst []byte) ([]byte, error) {
				if string(e.Key) == "fails" {
					return nil, errors.New("no")
				}
				return append(dst, e.Value...), nil
			}
			var skip *format.SkipError
			if err := w.Entry(section, e, value); err != nil && !errors.As(err, &skip) {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	want := map[string]*format.Entry{}
	for _, e := range entries {
		if string(e.Key) != "fails" {
			want[string(e.Key)] = e
		}
	}
	got := [2]int{}
	r := format.NewReader(bytes.NewReader(whole), format.Limits{})
	for {
		rec, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if rec.Kind != format.KindEntry {
			continue
		}
		got[rec.Index]++
		e, key := rec.Entry, string(rec.Entry.Key)
		wanted := want[key].Own
		if key == "absent" {
			wanted = nil
		}
		if !reflect.DeepEqual(e.Own, wanted) || e.Fresh != want[key].Fresh || e.Left != want[key].Left || !bytes.Equal(e.Value, want[key].Value) {
			t.Errorf("%s: %v, %v, %+v; want %+v", key, e.Fresh, e.Left, e.Own, want[key])
		}
	}
	if got != [2]int{len(want), len(want)} {
		t.Errorf("%v entries, want %d in each section", got, len(want))
	}
	for i := range min(len(whole), 3000) { // a stream that breaks off anywhere gives no wrong life
		r := format.NewReader(strings.NewReader(string(whole[:i])), format.Limits{})
		for {
			rec, err := r.Next()
			if err != nil {
				break
			}
			if rec.Kind == format.KindEntry && string(rec.Entry.Key) == "plain" && rec.Entry.Own != nil {
				t.Fatalf("%d bytes: %+v", i, rec.Entry)
			}
		}
	}
}
