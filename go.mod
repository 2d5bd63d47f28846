module github.com/strata-cache/strata

go 1.26.0
