// Package lifetime has contexts that end like the contexts of package context, and cost
// next to nothing if nothing looks at their end.
//
// A [Scope] is cancelled by its owner. A [Bound] lies in a Scope and ends after a time,
// too; its work has either returned by then, or is cut short. [Deadlines] are the ends
// of all running Bounds.
//
// Each makes a context of package context of itself only on demand: when its Done is
// asked for, or when a Bound ends before its work. So contexts derived from them,
// causes and context.AfterFunc work as with any other context.
package lifetime
