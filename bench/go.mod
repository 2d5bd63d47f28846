module github.com/strata-cache/strata/bench

go 1.26.0

require (
	github.com/VictoriaMetrics/fastcache v1.13.0
	github.com/Yiling-J/theine-go v0.6.3
	github.com/allegro/bigcache/v3 v3.1.0
	github.com/bradfitz/gomemcache v0.0.0-20260422231931-4d751bb6e37c
	github.com/coocood/freecache v1.2.7
	github.com/dgraph-io/ristretto/v2 v2.4.2
	github.com/elastic/go-freelru v0.16.0
	github.com/gomodule/redigo v1.9.3
	github.com/hashicorp/golang-lru/v2 v2.0.7
	github.com/maypok86/otter/v2 v2.4.0
	github.com/patrickmn/go-cache v2.1.0+incompatible
	github.com/phuslu/lru v1.0.18
	github.com/puzpuzpuz/xsync/v4 v4.5.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	github.com/scalalang2/golang-fifo v1.0.2
	github.com/strata-cache/strata v0.0.0
	github.com/strata-cache/strata/contrib/goredis v0.0.0
	github.com/valkey-io/valkey-go v1.0.79
	github.com/viccon/sturdyc v1.1.5
	github.com/zeebo/xxh3 v1.1.0
	golang.org/x/sync v0.24.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/golang/snappy v1.0.0 // indirect
	github.com/klauspost/cpuid/v2 v2.4.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
)

replace (
	github.com/strata-cache/strata => ..
	github.com/strata-cache/strata/contrib/goredis => ../contrib/goredis
)
