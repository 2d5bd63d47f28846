package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/strata-cache/strata"
)

// user is a row of the database.
type user struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// database is the part of a database that the service needs. find returns
// strata.ErrNotFound if there is no such user.
type database interface {
	find(ctx context.Context, id string) (user, error)
	save(ctx context.Context, u user) error
}

// options returns the options of the cache of users. Tests use the same.
func options(db database) strata.Options[string, user] {
	return strata.Options[string, user]{
		Name:   "users",
		TTL:    5 * time.Minute,
		Loader: db.find,
	}
}

// service answers GET and PUT of /users/{id}.
type service struct {
	*http.ServeMux
	db    database
	users *strata.Cache[string, user]
}

// newService returns a service. The caller closes the cache.
func newService(db database, users *strata.Cache[string, user]) *service {
	s := &service{http.NewServeMux(), db, users}
	s.HandleFunc("GET /users/{id}", s.get)
	s.HandleFunc("PUT /users/{id}", s.put)
	return s
}

func (s *service) get(w http.ResponseWriter, r *http.Request) {
	u, err := s.users.GetOrLoad(r.Context(), r.PathValue("id"), nil)
	switch {
	case errors.Is(err, strata.ErrNotFound):
		http.Error(w, "no such user", http.StatusNotFound)
	case err != nil:
		http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(u) // fails if the client has left
	}
}

// maxName is the size, in bytes, of the longest name.
const maxName = 1000

func (s *service) put(w http.ResponseWriter, r *http.Request) {
	name, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxName))
	if err != nil {
		http.Error(w, "the name is too long", http.StatusBadRequest)
		return
	}
	u := user{ID: r.PathValue("id"), Name: string(name)}
	err = s.db.save(r.Context(), u)
	// The drop comes after the write, also after a failed one: a database may have saved the user
	// and could not say so. The error of the drop is ignored, as strata repeats the drop until all
	// instances are told.
	_ = s.users.Invalidate(r.Context(), u.ID)
	if err != nil {
		http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
