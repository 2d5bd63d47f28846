// Package top shows the caches of a program in a terminal, from the JSON of the page of package
// admin: one row for each cache, and the details of one.
package top
