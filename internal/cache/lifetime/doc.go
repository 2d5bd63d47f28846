// Package lifetime has contexts that end as those of package context do, and cost next
// to nothing if nothing looks at their end.
//
// A [Scope] is cancelled by its owner. A [Bound] lies in a Scope and ends after a time,
// too; the work in it has then either returned before, or is cut short. [Deadlines] are
// the ends of all Bounds that run.
//
// Each makes a context of package context of itself when that is needed: when its Done
// is asked for, or when a Bound ends before its work. So contexts that are derived from
// them, causes and context.AfterFunc work as with any other context.
package lifetime
