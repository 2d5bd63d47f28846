// Package stratahttp connects caches with HTTP servers.
//
// [Controls] lets authorised requests read past caches, with the headers that
// browsers and curl send for a reload.
package stratahttp
