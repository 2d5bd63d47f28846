module github.com/strata-cache/strata/bench

go 1.26.0

require (
	github.com/gomodule/redigo v1.9.3
	github.com/maypok86/otter/v2 v2.4.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	github.com/strata-cache/strata v0.0.0
	github.com/strata-cache/strata/contrib/goredis v0.0.0
	github.com/valkey-io/valkey-go v1.0.79
	github.com/viccon/sturdyc v1.1.5
	golang.org/x/sync v0.24.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
)

replace (
	github.com/strata-cache/strata => ..
	github.com/strata-cache/strata/contrib/goredis => ../contrib/goredis
)
