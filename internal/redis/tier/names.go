package tier

import (
	"bytes"
	"sync"
)

// named are the commands and the names of scripts by the beginnings of calls.
var named = sync.OnceValue(func() map[string][2]string { // read-only
	all := map[string][2]string{}
	s := newScripts()
	for name, sc := range map[string]*script{
		"acquire": s.acquire, "fill": s.fill, "put": s.put, "token": s.token, "set": s.set, "drop": s.drop, "extend": s.extend, "release": s.release,
		"renew": s.renew, "clean": s.clean, "changes": s.changes, "namespace": s.namespace, "drop_all": s.dropAll, "drop_tags": s.dropTags,
	} {
		all[sc.digest], all[sc.text] = [2]string{"EVALSHA", "strata." + name}, [2]string{"EVAL", "strata." + name}
	}
	return all
})

// ScriptOf returns the command and the name of the script of a call that begins with head.
func ScriptOf(head string) (command, script string) {
	n := named()[head]
	return n[0], n[1]
}

// ScriptIn returns the name of the script of a command, or nothing if it runs none of package
// layout.
func ScriptIn(command []byte) string {
	_, rest, _ := bytes.Cut(command, []byte("\r\n"))
	for head, n := range named() {
		if bytes.HasPrefix(rest, []byte(head)) {
			return n[1]
		}
	}
	return ""
}
