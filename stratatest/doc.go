// Package stratatest helps to test programs that use strata, and the tiers,
// buses and codecs that strata uses.
//
// [Tier] and [Bus] are an in-memory tier and bus that any number of caches in
// one process share. They have no server, take no time, and work in a
// testing/synctest bubble. [FaultyTier] makes any tier slow or broken; a Tier
// can be restarted, set back, and made to forget; a Bus can be cut, delayed,
// and made to lose, double and swap messages.
//
// [Pair] makes two connected instances of a cache for a test, and [Plain] takes
// chance, refreshes and stale values out of the options of one. The program in
// examples/service is tested with both.
//
// [TestTier], [TestStore], [TestBus], [TestAnnouncer] and [TestCodec] are conformance tests:
// a cache can rely on an implementation that passes its test. Each sub-test is
// named after the promise that it checks.
package stratatest
