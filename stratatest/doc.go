// Package stratatest helps to test what is built on strata, and what strata is
// built on.
//
// [Tier] and [Bus] are an in-memory tier and bus that any number of caches in
// one process share. They have no server, take no time, and work in a
// testing/synctest bubble. [FaultyTier] makes any tier slow or broken; Tier can
// be restarted, set back, and made to forget; Bus can be cut, delayed, and made
// to lose, double and swap messages.
//
// [TestTier], [TestBus], [TestAnnouncer] and [TestCodec] are conformance kits:
// whoever implements one of these interfaces runs its kit and knows that a
// cache can rely on it. Each sub-test is named after the promise it checks.
package stratatest
