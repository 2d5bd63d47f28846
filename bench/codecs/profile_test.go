package codecs

import "time"

// profile has nine fields, three of them of several parts.
type profile struct {
	ID      int64
	Name    string
	Email   string
	Active  bool
	Score   float64
	Seen    time.Time
	Groups  []string
	Labels  map[string]string
	Visited []int32
}

// schema is profile's for Avro.
const schema = `{"type": "record", "name": "profile", "fields": [
	{"name": "ID", "type": "long"},
	{"name": "Name", "type": "string"},
	{"name": "Email", "type": "string"},
	{"name": "Active", "type": "boolean"},
	{"name": "Score", "type": "double"},
	{"name": "Seen", "type": {"type": "long", "logicalType": "timestamp-micros"}},
	{"name": "Groups", "type": {"type": "array", "items": "string"}},
	{"name": "Labels", "type": {"type": "map", "values": "string"}},
	{"name": "Visited", "type": {"type": "array", "items": "int"}}
]}`

func sampleProfile() profile {
	return profile{
		ID: 1234567, Name: "Grace Hopper", Email: "grace@example.org", Active: true, Score: 98.25,
		Seen:    time.Date(2026, 11, 23, 18, 4, 36, 123456000, time.UTC),
		Groups:  []string{"admin", "staff", "navy"},
		Labels:  map[string]string{"lang": "en", "plan": "pro", "zone": "eu-1"},
		Visited: []int32{1, 20, 300, 4000, 50000, 600000},
	}
}
