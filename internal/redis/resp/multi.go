package resp

// Outcome is the result of a transaction.
type Outcome uint8

// The outcomes. Executed: there is a reply to each command. Changed: nothing
// was executed, because a watched key has changed. Aborted: nothing was
// executed, because the server refused a command or the transaction. Loose: the
// server refused MULTI, and executed commands outside of a transaction.
const (
	Executed Outcome = iota + 1
	Changed
	Aborted
	Loose
)

// Refusal is an error reply: to the I-th command, to MULTI if I is -1, or to
// EXEC if I is the number of commands.
type Refusal struct {
	I    int
	Text []byte
}

// Transaction interprets the replies to MULTI, N commands and EXEC.
type Transaction struct {
	N       int
	Outcome Outcome
	// Values are the replies to the commands if the Outcome is Executed.
	Values Value
	// Refused are the refusals in order.
	Refused []Refusal

	heard int
	loose bool // MULTI was refused
	ran   bool // MULTI was refused and a command was not
}

// AtExec reports whether the next reply is that to EXEC. It must stay valid
// after the next read.
func (t *Transaction) AtExec() bool { return t.heard == t.N+1 }

// Hear processes the next reply.
func (t *Transaction) Hear(v Value) error {
	i := t.heard - 1 // number of the command
	t.heard++
	switch {
	case i == t.N:
		return t.end(v)
	case v.kind == Error:
		t.loose = t.loose || i < 0
		t.refuse(i, v)
	case i < 0 && !v.OK():
		return broken("MULTI not answered by OK")
	// The server has executed this command at once, since it has not understood MULTI.
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

// end processes the reply to EXEC.
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
