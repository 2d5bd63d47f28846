// Package stratahttp connects caches with HTTP servers.
//
// [Controls] lets those who may read past the caches, for one request, with the
// headers that browsers and curl send for that.
package stratahttp
