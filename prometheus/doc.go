// Package strataprom collects the numbers of caches for Prometheus.
//
//	reg.MustRegister(strataprom.NewCollector(users, products))
//
// All metrics of caches begin with strata_ and have the labels cache, the name of the cache, and
// cache_service, its service. No label is a key or a tag. Each scrape calls Stats once for each cache and counts nothing
// itself, so a cache costs nothing more between two scrapes. The sum over the other labels of
// a counter is the number of all its events: labels are disjoint.
//
// Histograms have their counts twice: as classic buckets, with 15 bounds that suit the
// measured times or sizes, and as a native histogram of schema 0, which has all bounds of
// [strata.Histogram] and loses nothing. A server of Prometheus that scrapes in text, the
// default, gets the classic one.
//
// The folder dashboards of the repository has a dashboard for Grafana and alert rules over
// these metrics.
package strataprom
