package resp

// Outcome is what became of a transaction.
type Outcome uint8

// The outcomes. Executed: there is a reply to each command. Changed: nothing
// was executed, because of a watched key. Aborted: nothing was, because the
// server refused a command or the whole. Loose: the server refused to begin,
// and executed commands outside of a transaction.
const (
	Executed Outcome = iota + 1
	Changed
	Aborted
	Loose
)

// Refusal is an error of the server: that of the I-th command, of MULTI for -1,
// of EXEC for the number of commands.
type Refusal struct {
	I    int
	Text []byte
}

// Transaction follows what a server says to MULTI, N commands and EXEC.
type Transaction struct {
	N       int
	Outcome Outcome
	// Values are the replies to the commands, once they are Executed.
	Values Value
	// Refused are the refusals in order.
	Refused []Refusal

	heard int
	loose bool // MULTI was refused
	ran   bool // and a command was not
}

// AtExec reports whether the next reply is that to EXEC, which has to outlive
// the next read.
func (t *Transaction) AtExec() bool { return t.heard == t.N+1 }

// Hear takes the next reply.
func (t *Transaction) Hear(v Value) error {
	i := t.heard - 1 // the command
	t.heard++
	switch {
	case i == t.N:
		return t.end(v)
	case v.kind == Error:
		t.loose = t.loose || i < 0
		t.refuse(i, v)
	case i < 0 && !v.OK():
		return broken("MULTI not answered by OK")
	case i >= 0 && t.loose:
		t.ran = true
	case i >= 0 && (v.kind != Status || string(v.body) != "QUEUED"):
		return broken("command in a transaction not answered by QUEUED")
	}
	return nil
}

func (t *Transaction) refuse(i int, v Value) {
	t.Refused = append(t.Refused, Refusal{I: i, Text: append([]byte(nil), v.body...)})
}

// end takes the reply to EXEC.
func (t *Transaction) end(v Value) error {
	refused := len(t.Refused) > 0
	switch {
	case t.ran:
		t.Outcome = Loose
	case t.loose:
		t.Outcome = Aborted
	case v.kind == Error:
		t.Outcome = Aborted
		t.refuse(t.N, v)
	case !refused && v.kind == Null:
		t.Outcome = Changed
	case !refused && v.kind == Array && v.Len() == t.N:
		t.Outcome, t.Values = Executed, v
	default:
		return broken("EXEC not answered by a reply for each command")
	}
	return nil
}
