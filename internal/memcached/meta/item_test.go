package meta_test

import (
	"math"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/memcached/meta"
)

func TestOnlyTheWholeLineOfTheItemThatIsWantedIsTaken(t *testing.T) {
	const line, value = "VALUE key 7 3\r\n", "abc\r\n"
	for _, sent := range []string{
		"", "VALUE", "VALUE ke", "VALUE key", "VALUE key 7", "VALUE key 7 3", "VALUE key 7 3\r", // cut
		"VALUE kex 7 3\r\n", "VALUE keyy 7 3\r\n", "VALUE key:7 3\r\n", "VALUX key 7 3\r\n", "END\r\n", "ERROR\r\n", // other lines
		"VALUE key 7 3 9", "VALUE key 7 3 9\r", "VALUE key 7 3 9 \r\n", "VALUE key 7 3 9x\r\n", "VALUE key 7 3 18446744073709551616\r\n", "VALUE key 7 3 \r\n", "VALUE key 7\r\n", "VALUE key  3\r\n", "VALUE key 7 \r\n",
		"VALUE key -7 3\r\n", "VALUE key 7 3x\r\n", "VALUE key 7 3\n", "VALUE key 7 3\r\r\n",
		"VALUE key 4294967296 3\r\n", "VALUE key 7 65\r\n", "VALUE key 7 18446744073709551619\r\n",
	} {
		r := reader(sent)
		if _, _, _, ok := r.TakeItem("key"); ok || r.Buffered() != len(sent) {
			t.Errorf("%q was taken, with %d bytes left", sent, r.Buffered())
		}
	}
	for sent, want := range map[string]uint64{line: 0, "VALUE key 7 3 9\r\n": 9, "VALUE key 7 3 18446744073709551615\r\n": math.MaxUint64} {
		r := reader(sent + value + "END\r\n")
		flags, size, cas, ok := r.TakeItem("key")
		if !ok || flags != 7 || size != 3 || cas != want {
			t.Fatalf("flags %d, size %d, number %d, %v", flags, size, cas, ok)
		}
		if got, err := r.Append(nil, size); string(got) != "abc" || err != nil {
			t.Errorf("value %q, %v", got, err)
		}
		if end, err := r.Read(); end.Kind != meta.End || err != nil {
			t.Errorf("%+v, %v behind the value", end, err)
		}
	}
}

// reader has received all of text.
func reader(text string) *meta.Reader {
	r := meta.NewReader(strings.NewReader(text), meta.Limits{Value: 64})
	_ = r.Wait()
	return r
}
