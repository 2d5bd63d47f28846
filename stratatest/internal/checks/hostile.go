package checks

// HostileKeys returns keys that many stores cannot carry as they are: they differ from each
// other by bytes that a tier or a bus might cut, fold, escape or take for a command.
func HostileKeys() []string {
	return []string{
		"", " ", "a", "A", "a ", " a", "a\x00", "a\x00b", "a\r\n", "a\r\nget b\r\n", "a\n", "a\tb", "a b", "a_b", "a-b", "a%20b", "a+b",
		"{a}", "{a}b", "{b}a", "{", "}", "{}", "{}a", "a:b", "a::b", ":", "a/b", "*", "?", "[a]", "a*", `\`, `a\`, `"`, "'",
		"\x7f", "\xff", "\xfe", "\xff\xfe", "\ufffd", "é", "e\u0301", "\u202e", "🗝", "-1", "0", "noreply", "YQ==", "a=", "~", "!",
	}
}
