// Package rules holds the repository's own rules, as tests: which package may
// import which, how large files, functions and packages may be, which words and facts
// comments and documents must have, and how tests treat time. The tests read the whole
// tree, nested modules included. Each rule is also checked against small bad examples,
// so that a rule which can no longer fail is noticed.
package rules
