package main

import (
	"errors"
	"io"
	"net/http"
)

// mostBytes is the size of the largest file that the service takes.
const mostBytes = 64 << 20

// newService answers GET and PUT of /files/{name}.
func newService(f files) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /files/{name}", func(w http.ResponseWriter, r *http.Request) { get(f, w, r) })
	mux.HandleFunc("PUT /files/{name}", func(w http.ResponseWriter, r *http.Request) { put(f, w, r) })
	return mux
}

func get(f files, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/octet-stream")
	n, err := f.get(r.Context(), r.PathValue("name"), w)
	switch {
	case err == nil:
	case errors.Is(err, errAbsent):
		http.Error(w, "no such file", http.StatusNotFound)
	case n == 0:
		http.Error(w, "the store does not answer", http.StatusServiceUnavailable)
	default:
		// The client has the status 200 and a part of the file. That the rest is missing can
		// only be told by a connection that ends before the response does.
		panic(http.ErrAbortHandler)
	}
}

func put(f files, w http.ResponseWriter, r *http.Request) {
	body := &source{r: http.MaxBytesReader(w, r.Body, mostBytes)}
	// ContentLength is -1 if the client has not said it. A file of unknown size is read to
	// its end before any of it is sent.
	err := f.put(r.Context(), r.PathValue("name"), body, r.ContentLength)
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, errTooLarge), errors.As(body.err, new(*http.MaxBytesError)):
		http.Error(w, "the file is too large", http.StatusRequestEntityTooLarge)
	case body.err != nil:
		http.Error(w, "the request ended early: nothing is stored", http.StatusBadRequest)
	default:
		http.Error(w, "the store does not answer", http.StatusServiceUnavailable)
	}
}

// source keeps the error of the request's body, to tell it from errors of the store.
type source struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}
