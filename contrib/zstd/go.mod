module github.com/strata-cache/strata/contrib/zstd

go 1.26.0

require (
	github.com/klauspost/compress v1.20.3
	github.com/strata-cache/strata v0.0.0
)

replace github.com/strata-cache/strata => ../..
