package remote

import "reflect"

// Wrapper is a Tier that passes operations on to another Tier, with something
// added: it counts them, delays them, or gives them spans of a trace. A wrapper
// embeds the Tier inside and has two more methods; then a cache finds all
// abilities of the Tier inside through the wrapper, and no others:
//
//	type counted struct {
//		remote.Tier
//		gets *atomic.Int64
//	}
//
//	func (c counted) Unwrap() remote.Tier                  { return c.Tier }
//	func (c counted) Wrap(inner remote.Tier) remote.Tier   { return counted{inner, c.gets} }
//
// Operations of an ability, such as [Tagger.Tags], go past the wrapper to the
// Tier inside. A wrapper that intercepts those too has a method
//
//	As(target any) bool
//
// as errors have it for [errors.As]. target is a pointer to the wanted interface, such
// as *Tagger. As sets it and returns true, or returns false, and then the Tier inside
// is asked.
type Wrapper interface {
	Tier
	// Unwrap returns the Tier inside.
	Unwrap() Tier
	// Wrap returns a wrapper like this one around inner. [Bind] calls it with the
	// view that the Tier inside has returned, so a wrapper has no method Bind.
	Wrap(inner Tier) Tier
}

// As returns the ability T of t: t itself, or the first Tier inside it that has
// the ability. T is [Tagger], [Announcer], [Mover], [Prober] or [Fleet], or another interface,
// defined by the caller. Use [Bind] instead of As for a [Binder].
func As[T any](t Tier) (ability T, ok bool) {
	for t != nil {
		if a, ok := t.(T); ok {
			return a, true
		}
		if w, ok := t.(interface{ As(target any) bool }); ok && w.As(&ability) {
			return ability, true
		}
		w, ok := t.(Wrapper)
		if !ok {
			break
		}
		t = w.Unwrap()
	}
	return ability, false
}

// Bind returns the view of t that belongs to s, in the same wrappers as t. If neither t
// nor a Tier inside it is a [Binder], it returns t itself, and false.
func Bind(t Tier, s Space) (view Tier, ok bool) {
	switch t := t.(type) {
	case Binder:
		return t.Bind(s), true
	case Wrapper:
		if inner, ok := Bind(t.Unwrap(), s); ok {
			return t.Wrap(inner), true
		}
	}
	return t, false
}

// AsReader returns t as a [Reader]. It returns false if t is none, or only embeds one.
func AsReader(t Tier) (r Reader, ok bool) {
	r, ok = t.(Reader)
	return r, ok && reflect.TypeOf(r.Self()) == reflect.TypeOf(t)
}
