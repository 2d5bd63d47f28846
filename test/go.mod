module github.com/strata-cache/strata/test

go 1.26.0

require github.com/strata-cache/strata v0.0.0

replace github.com/strata-cache/strata => ..
