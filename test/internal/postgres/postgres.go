//go:build unix

// Package postgres starts a real PostgreSQL for a test.
package postgres

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/strata-cache/strata/internal/testing/servers"
)

// Server is a PostgreSQL server with an empty database. [Start] makes one.
type Server struct {
	// URL is the URL of the database, for a superuser without a password.
	URL string

	t testing.TB
	p *servers.Process
}

// Start starts a server that accepts maxConns connections, and waits
// until it answers. Run by root, it runs as an unprivileged user: PostgreSQL
// refuses to run as root.
func Start(t testing.TB, maxConns int) *Server {
	t.Helper()
	const glob = "/usr/lib/postgresql/*/bin/"
	server, err := servers.Program("postgres", "postgresql", glob+"postgres")
	if err == nil {
		server, err = filepath.EvalSymlinks(server)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir, attr := postgresDir(t)
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(filepath.Dir(server), "initdb"),
		"-D", data, "-U", "strata", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = dir, attr
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	pg := &Server{t: t}
	if err = pg.start(server, data, maxConns, attr); err != nil {
		t.Fatalf("postgres: %v", err)
	}
	return pg
}

func (pg *Server) start(server, data string, maxConns int, attr *syscall.SysProcAttr) error {
	port := servers.Port(pg.t)
	pg.URL = fmt.Sprintf("postgres://strata@127.0.0.1:%d/postgres?sslmode=disable", port)
	cmd := exec.Command(server, "-D", data, "-p", strconv.Itoa(port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "max_connections="+strconv.Itoa(maxConns), "-c", "superuser_reserved_connections=0",
		"-c", "shared_buffers=16MB", "-c", "fsync=off", "-c", "max_wal_senders=0", "-c", "autovacuum=off")
	cmd.Dir, cmd.SysProcAttr = filepath.Dir(data), attr
	p, err := servers.Start(cmd)
	if err != nil {
		return err
	}
	pg.t.Cleanup(p.Kill)
	pg.p = p
	return p.Await(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, pg.URL)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
}

// Kill ends the server at once.
func (pg *Server) Kill() { pg.p.Kill() }

// postgresDir returns a directory for the server's user, and the attributes of
// a process that runs as that user. A test's own directories are closed to
// other users.
func postgresDir(t testing.TB) (dir string, attr *syscall.SysProcAttr) {
	t.Helper()
	dir, err := os.MkdirTemp("", "strata-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	attr = &syscall.SysProcAttr{}
	if os.Geteuid() != 0 {
		return dir, attr
	}
	uid, gid, err := unprivileged()
	if err == nil {
		err = os.Chown(dir, int(uid), int(gid))
	}
	if err != nil {
		t.Fatalf("postgres cannot run as root, and: %v", err)
	}
	attr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	return dir, attr
}

// unprivileged returns a user that a server may run as.
func unprivileged() (uid, gid uint32, err error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, lookErr := user.Lookup(name)
		if lookErr != nil {
			err = lookErr
			continue
		}
		id, errU := strconv.ParseUint(u.Uid, 10, 32)
		group, errG := strconv.ParseUint(u.Gid, 10, 32)
		if errU == nil && errG == nil {
			return uint32(id), uint32(group), nil
		}
	}
	return 0, 0, err
}
