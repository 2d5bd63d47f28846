package meta

// A request is one command for one key, in meta or in classic form, and knows which
// replies can belong to it. Invariant: a value reaches its caller only in a reply
// that fits: of a kind that answers the command, with the opaque of a meta command
// or the key of a classic one.

// Op is the operation of a request.
type Op uint8

// The operations.
const (
	OpGet   Op = iota // the value
	OpGets            // the value, flags and CAS number
	OpGat             // as OpGets, and a new life
	OpTouch           // a new life
	OpSet
	OpAdd
	OpReplace
	OpCAS
	OpAppend  // the value behind the value of the item
	OpPrepend // the value in front of the value of the item
	OpDelete
	OpIncr
	OpDecr
)

// Reads reports whether a command can be sent again without harm.
func (o Op) Reads() bool { return o <= OpTouch }

// Stores reports whether a value follows the command.
func (o Op) Stores() bool { return o >= OpSet && o <= OpPrepend }

// joins reports whether the item keeps its flags and its life.
func (o Op) joins() bool { return o == OpAppend || o == OpPrepend }

// counts reports whether the command adds to a number, or subtracts from it.
func (o Op) counts() bool { return o == OpIncr || o == OpDecr }

// Name returns the name of the command, as a meta command or in classic form.
func (o Op) Name(meta bool) string {
	if meta {
		return metaNames[o]
	}
	return names[o]
}

// Request is one command.
type Request struct {
	Op  Op
	Key Key
	// Meta says that meta commands are used; then the reply has this opaque.
	Meta   bool
	Opaque uint32
	// Quiet says that no reply is wanted if the command succeeds.
	Quiet bool
	Flags uint32
	// Expiry is a time of expiry as the server wants it.
	Expiry     int64
	CAS, Delta uint64
	// Makes says that a missing number begins at First, with the life Expiry. Only meta
	// commands can do so.
	Makes bool
	First uint64
	// Own is the number that a stored item gets, if the server lets clients choose it;
	// zero leaves it to the server.
	Own   uint64
	Value []byte
}

// AppendTo appends the command without its value. size is the length of the value,
// with the key in front of it.
func (q *Request) AppendTo(dst []byte, size int64) []byte {
	if q.Meta {
		return q.appendMeta(dst, size)
	}
	return q.appendClassic(dst, size)
}

// metaNames and metaWords are the commands, and their flags without a number.
var (
	metaNames = [...]string{"mg", "mg", "mg", "mg", "ms", "ms", "ms", "ms", "ms", "ms", "md", "ma", "ma"}                                  // read-only
	metaWords = [...]string{" v", " v f c", " v f c", "", "", " ME", " MR", "", " MA", " MP", "", " v", " v MD"}                           // read-only
	names     = [...]string{"get", "gets", "gats", "touch", "set", "add", "replace", "cas", "append", "prepend", "delete", "incr", "decr"} // read-only
)

func (q *Request) appendMeta(dst []byte, size int64) []byte {
	if q.Key.Binary {
		dst = AppendBinaryHead(dst, metaNames[q.Op], q.Key.Text)
	} else {
		dst = AppendHead(dst, metaNames[q.Op], q.Key.Text)
	}
	if q.Op.Stores() {
		dst = AppendNumber(dst, size)
	}
	dst = AppendWords(dst, metaWords[q.Op])
	if q.Key.Binary {
		dst = AppendWords(dst, " b")
	}
	switch {
	case q.Op == OpGat, q.Op == OpTouch:
		dst = AppendTime(dst, 'T', q.Expiry)
	case q.Op.joins():
	case q.Op.Stores():
		if q.Expiry != 0 {
			dst = AppendTime(dst, 'T', q.Expiry)
		}
		if q.Flags != 0 {
			dst = AppendFlag(dst, 'F', uint64(q.Flags))
		}
		if q.Op == OpCAS {
			dst = AppendFlag(dst, 'C', q.CAS)
		}
		if q.Own != 0 {
			dst = AppendFlag(dst, 'E', q.Own)
		}
	case q.Op.counts():
		dst = AppendFlag(dst, 'D', q.Delta)
		if q.Makes {
			dst = AppendFlag(AppendTime(dst, 'N', q.Expiry), 'J', q.First)
		}
	}
	// The opaque comes last, and with every command: it is what a reply is recognised by.
	if q.Quiet {
		dst = AppendWords(dst, " q")
	}
	return AppendEnd(AppendFlag(dst, 'O', uint64(q.Opaque)))
}

func (q *Request) appendClassic(dst []byte, size int64) []byte {
	if q.Op == OpGat {
		dst = AppendNumber(append(dst, "gats"...), q.Expiry)
		return AppendEnd(append(append(dst, ' '), q.Key.Text...))
	}
	dst = AppendHead(dst, names[q.Op], q.Key.Text)
	switch {
	case q.Op == OpTouch:
		dst = AppendNumber(dst, q.Expiry)
	case q.Op.Stores():
		dst = AppendUint(dst, uint64(q.Flags))
		dst = AppendNumber(AppendNumber(dst, q.Expiry), size)
		if q.Op == OpCAS {
			dst = AppendUint(dst, q.CAS)
		}
	case q.Op.counts():
		dst = AppendUint(dst, q.Delta)
	}
	return AppendEnd(dst)
}

// AppendAll appends the command with its value.
func (q *Request) AppendAll(dst []byte) []byte {
	if !q.Op.Stores() {
		return q.AppendTo(dst, 0)
	}
	front := q.Key.Front()
	dst = q.AppendTo(dst, int64(len(front)+len(q.Value)))
	return AppendBlock(append(dst, front...), q.Value)
}

// Fits reports whether r can be the reply, or the first line of it.
func (q *Request) Fits(r *Reply) bool {
	// An error names neither a key nor an opaque.
	if r.Kind == Error {
		return true
	}
	if q.Meta {
		return q.fitsMeta(r)
	}
	switch q.Op {
	case OpGet, OpGets, OpGat:
		return r.Kind == End || r.Kind == Item && string(r.Key) == q.Key.Text
	case OpTouch:
		return r.Kind == Touched || r.Kind == NF
	case OpDelete:
		return r.Kind == Deleted || r.Kind == NF
	case OpIncr, OpDecr:
		return r.Kind == Number || r.Kind == NF
	}
	return r.Kind == Stored || refusal(r.Kind)
}

// fitsMeta is Fits for a meta command. Replies without a value may lack the opaque.
func (q *Request) fitsMeta(r *Reply) bool {
	opaque, has := r.Flags.Get('O')
	n, ok := r.Flags.Uint('O')
	if has && (len(opaque) == 0 || !ok || n != uint64(q.Opaque)) {
		return false
	}
	switch q.Op {
	case OpGet, OpGets, OpGat:
		return has && r.Kind == VA || r.Kind == EN
	case OpTouch:
		return has && r.Kind == HD || r.Kind == EN
	case OpIncr, OpDecr:
		return has && r.Kind == VA || refusal(r.Kind)
	}
	return has && r.Kind == HD || refusal(r.Kind)
}

// refusal reports whether a reply says that nothing was done.
func refusal(k Kind) bool { return k == NF || k == NS || k == EX }
