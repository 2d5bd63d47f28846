// Package hello is a small HTTP service with a database. Between the two is, by
// choice, no cache, a naive cache, or strata.
//
//	GET    /hello?name=NAME&locale=LOCALE   a greeting, as JSON; of the origin, if the request has the
//	                                        token and "Cache-Control: no-cache"
//	DELETE /hello                           forget all greetings, cached ones too
//	GET    /mode                            the mode and its alternatives
//	PUT    /mode?mode=none|naive|strata     switch
//	GET    /stats                           numbers of the mode and the origin
//	GET    /metrics                         the numbers of strata, for Prometheus
//	GET    /snapshot                        the entries of strata, with a token only
//	PUT    /snapshot                        take in such entries
//
// Errors are JSON objects with the one member "error", except errors of /metrics and /snapshot.
package hello
