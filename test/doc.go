// Package test holds the tests that need real servers: Redis and PostgreSQL,
// started by the tests as processes of their own and ended with them. With
// -short only the tests run that need one Redis and a few seconds.
package test
