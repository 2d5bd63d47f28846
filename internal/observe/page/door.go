package page

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// NewToken draws a token.
func NewToken() string { return rand.Text() }

// Door lets requests with a token in. The address of the peer, the Host and the headers of a request say nothing
// about the place from which it comes: a proxy on this machine may send its own for every client.
type Door struct {
	token [sha256.Size]byte
	// cookie is the name of the cookie that stands for the token in a browser, value its value. The name
	// belongs to the token, so that the pages of one host do not take each other's.
	cookie, value string
	closed        bool
}

// NewDoor returns a Door for a token; without one it lets nothing in.
func NewDoor(token string) *Door {
	d := &Door{token: sha256.Sum256([]byte(token)), closed: token == ""}
	name, value := sha256.Sum256([]byte("name "+token)), sha256.Sum256([]byte("cookie "+token))
	d.cookie, d.value = "strata-"+hex.EncodeToString(name[:4]), hex.EncodeToString(value[:])
	return d
}

// is compares in a time that tells nothing about the token.
func (d *Door) is(token string) bool {
	given := sha256.Sum256([]byte(token))
	return !d.closed && subtle.ConstantTimeCompare(given[:], d.token[:]) == 1
}

// Admit reports whether a request has the token: in the query (token=), as "Authorization: Bearer", or as the
// cookie of Enter. It reports enters for a browser that follows an address with the token, which Enter answers.
func (d *Door) Admit(r *http.Request) (ok, enters bool) {
	// A scheme is the same in upper and lower case (RFC 9110, 11.1).
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") && d.is(token) {
		return true, false
	}
	for _, c := range r.CookiesNamed(d.cookie) {
		ok = ok || !d.closed && subtle.ConstantTimeCompare([]byte(c.Value), []byte(d.value)) == 1
	}
	// Two tokens may be a trick against a proxy that looks at one of them.
	query := r.URL.Query()["token"]
	if len(query) != 1 || !d.is(query[0]) {
		return ok, false
	}
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	browses := r.Header.Get("Sec-Fetch-Mode") == "navigate" || strings.Contains(r.Header.Get("Accept"), "text/html")
	return true, reads && browses && strings.HasSuffix(r.URL.Path, "/")
}

// Enter gives a browser the cookie, and leads it to the address without the token, so that the
// token gets into no history. The browser sends the cookie to the folder of the page only, and for
// no other site.
func (d *Door) Enter(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{
		Name: d.cookie, Value: d.value, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
	q := r.URL.Query()
	// All other parameters stay: they may say which cache is to be shown.
	q.Del("token")
	to := "./"
	if len(q) > 0 {
		to += "?" + q.Encode()
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// addressOf is the address of the page that r asks for, as far as the server knows it: it does
// not trust the host that the client names.
func addressOf(r *http.Request) string {
	scheme, host, path := "http", "localhost", "/"
	if r.TLS != nil {
		scheme = "https"
	}
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && a.Network() == "tcp" {
		host = a.String()
	}
	if i := strings.IndexByte(r.Pattern, '/'); i >= 0 && !strings.Contains(r.Pattern, "{") {
		path = r.Pattern[i:]
	}
	return scheme + "://" + host + (&url.URL{Path: path}).EscapedPath()
}

// ForeignHost reports whether the Host of a request is a name that another site can have: one with a dot that
// is neither an address nor below localhost. A browser can be led to this machine under such a name, and then
// takes it for that site.
func ForeignHost(host string) bool {
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil {
		if name = h; strings.Trim(port, "0123456789") != "" {
			return true
		}
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return false
	}
	return name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" && !strings.HasSuffix(name, ".localhost")
}
