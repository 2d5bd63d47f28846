package strataprom_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/strata-cache/strata/memcached"
	strataprom "github.com/strata-cache/strata/prometheus"
	"github.com/strata-cache/strata/redis"
)

func TestEveryNumberOfAPoolHasAMetric(t *testing.T) {
	var s redis.Stats
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		v.Field(i).Set(reflect.ValueOf(1 << i).Convert(v.Field(i).Type()))
	}
	s.Open += s.Idle        // which are open
	s.Dials += s.DialErrors // which are dials
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(strataprom.NewPoolCollector("one", func() redis.Stats { return s }))
	reg.MustRegister(strataprom.NewPoolCollector("two", func() memcached.PoolStats { return memcached.PoolStats{} }))
	found := 0
	for _, f := range gather(t, reg) {
		found |= int(sum(f, "pool", "one"))
		if sum(f, "pool", "two") != 0 {
			t.Errorf("%s of a pool without calls: %v", f.GetName(), f)
		}
	}
	if found != 1<<v.NumField()-1 {
		t.Errorf("the numbers %b of %d are found", found, v.NumField())
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func TestPoolWithoutNumbersIsAnErrorOfRegister(t *testing.T) {
	err := prometheus.NewRegistry().Register(strataprom.NewPoolCollector[redis.Stats]("redis", nil))
	if err == nil || !strings.Contains(err.Error(), "no function") {
		t.Error(err)
	}
}

func TestPoolOfAClientThatIsClosedCanBeScraped(t *testing.T) {
	client, err := redis.New(redis.Options{Addr: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(strataprom.NewPoolCollector("redis", client.Stats))
	_ = client.Ping(t.Context()) // is refused
	client.Close()
	if n := sum(gather(t, reg)["db_client_connection_dials_total"], "result", "error"); n == 0 {
		t.Error("no failed dial is counted")
	}
}
