// A cache whose numbers all differ, for the tests of collectors of metrics.

package lab

import (
	"reflect"
	"strings"
	"time"

	"github.com/strata-cache/strata"
)

// FixedStats is a cache for collectors of metrics, with constant numbers.
type FixedStats strata.Stats

// Stats returns the numbers.
func (f FixedStats) Stats() strata.Stats { return strata.Stats(f) }

// NumberedCache returns numbers of a cache with all parts, of which no two are equal, by their paths.
func NumberedCache(name string) (f FixedStats, numbers map[string]float64) {
	s := strata.Stats{Name: name, Parts: strata.Parts{Version: "v1", Schema: "json 00", L2: "*redis.Tier", Bus: "*redis.Bus", Partition: "available"}}
	s.Operations = []strata.OperationStats{{Operation: "get", Result: "ok"}, {Operation: "get", Result: "error"}, {Operation: "get", Result: "timeout"}}
	s.Operations[0].Latency.Buckets[3] = 7001
	s.Operations[1].Latency.Buckets[3] = 7002
	s.Operations[2].Latency.Buckets[3] = 7003
	s.ServersLeftAlone, s.ServersWithoutStores = []string{"10.0.0.1:11211"}, []string{"10.0.0.2:11211"}
	numbers, next := map[string]float64{}, uint64(1000)
	number(reflect.ValueOf(&s).Elem(), "", numbers, &next)
	s.L2.Misses += s.L2.Foreign // which are misses, too
	s.Remembered += s.Negative  // and so on
	s.LeaseWaits += s.LeaseWins
	numbers["Remembered"], numbers["LeaseWaits"] = float64(s.Remembered-s.Negative), float64(s.LeaseWaits-s.LeaseWins)
	return FixedStats(s), numbers
}

// number gives each number below v a value of its own.
func number(v reflect.Value, path string, numbers map[string]float64, next *uint64) {
	switch v.Interface().(type) {
	case strata.Histogram, strata.SizeHistogram:
		*next++
		v.FieldByName("Buckets").Index(5).SetUint(*next)
		numbers[path] = float64(*next)
		return
	case time.Duration:
		*next++
		v.SetInt(int64(*next) * int64(time.Second))
		numbers[path] = float64(*next)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			number(v.Field(i), strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."), numbers, next)
		}
	case reflect.Uint64, reflect.Int64, reflect.Int:
		*next++
		v.Set(reflect.ValueOf(*next).Convert(v.Type()))
		numbers[path] = float64(*next)
	case reflect.Bool:
		v.SetBool(true)
	}
}
