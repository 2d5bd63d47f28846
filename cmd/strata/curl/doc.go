// Package curl reads command lines of curl, such as the ones that browsers copy, as the
// request that curl would send.
//
//	words.go    the words of a text, as bash splits it
//	options.go  the known options
//	curl.go     the request
package curl
