package main

import (
	"fmt"
	"strings"
)

// Lengths in pixels. A panel's x begins at its left edge, y at the top of the
// picture.
const (
	width, height = 880, 480
	margin        = 24
	panelWidth    = 256
	panelStep     = panelWidth + 32

	instanceWidth = 120
	left          = 0
	right         = panelWidth - instanceWidth

	titleY      = 42
	subtitleY   = 61
	callersX    = 92
	callersY    = 88
	callersEnd  = 103
	instanceY   = 110
	headY       = 123
	l1Y         = 144
	loadY       = 175
	instanceEnd = 206
	gapY        = 226
	remoteX     = 38
	remoteY     = 246
	originY     = 302
	captionsY   = 364
	lineHeight  = 18
)

// state is the state of a tier's value in the picture.
type state string

// The states of a value.
const (
	fresh   state = "fresh"   // it was there before
	stored  state = "stored"  // it is stored in the panel
	dropped state = "dropped" // it is dropped in the panel
	absent  state = "absent"
)

// load is the activity of an instance in the picture.
type load string

// The states of a load.
const (
	idle   load = "idle"
	active load = "active"
	fenced load = "fenced" // it may not store
)

// canvas collects the elements of a picture.
type canvas struct {
	text   strings.Builder
	colour string // class of the present panel
}

func (c *canvas) add(format string, args ...any) {
	fmt.Fprintf(&c.text, format+"\n", args...)
}

// open begins the picture with its style. All colours are there twice, for
// light and for dark pages.
func (c *canvas) open() {
	c.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="title description">`, width, height, width, height)
	c.add(`<title id="title">A hit, a miss and an invalidation</title>`)
	c.add(`<desc id="description">A hit is answered by L1. On a miss one instance gets the lease of L2, runs the loader and stores the value in L2 and L1, from where all callers on all instances get it. An invalidation drops the value in L2, then in L1, and a message tells the other instances.</desc>`)
	c.add("<style>%s</style>", style())
	c.add(`<rect class="page" x="0.5" y="0.5" width="%d" height="%d" rx="12"/>`, width-1, height-1)
}

func (c *canvas) close() { c.add("</svg>") }

// panel draws one of the three scenes with its numbered captions. A caption may
// have several lines.
func (c *canvas) panel(n int, colour, title, subtitle string, scene func(*canvas), captions ...string) {
	c.colour = colour
	c.add(`<g class="%s" transform="translate(%d 0)">`, colour, margin+n*panelStep)
	if n > 0 {
		c.add(`<path class="rule" d="M-16.5 24V%d"/>`, height-24)
	}
	c.add(`<text class="title" x="0" y="%d">%s</text>`, titleY, title)
	c.add(`<text class="quiet" x="0" y="%d">%s</text>`, subtitleY, subtitle)
	scene(c)
	y := captionsY
	for i, caption := range captions {
		c.step(i+1, 9, y)
		for line := range strings.SplitSeq(caption, "\n") {
			c.add(`<text class="caption" x="26" y="%d">%s</text>`, y+4, line)
			y += lineHeight
		}
		y += 3
	}
	c.add("</g>")
}

// callers draws n callers above the instance at x.
func (c *canvas) callers(x, n int) {
	for i := range n {
		at := x + callersX - 18*i
		c.add(`<path class="caller" d="M%d %da3.6 3.6 0 1 1 .01 0zm-6.5 10a6.5 6.5 0 0 1 13 0z"/>`, at, callersY)
	}
}

// instance draws an instance with its L1.
func (c *canvas) instance(x int, name string, s state) {
	c.add(`<rect class="instance" x="%d" y="%d" width="%d" height="%d" rx="8"/>`, x, instanceY, instanceWidth, instanceEnd-instanceY)
	c.add(`<text class="quiet" x="%d" y="%d">%s</text>`, x+10, headY+5, name)
	c.add(`<rect class="tier" x="%d" y="%d" width="%d" height="25" rx="5"/>`, x+8, l1Y, instanceWidth-16)
	c.add(`<text class="name" x="%d" y="%d">L1 <tspan class="quiet">memory</tspan></text>`, x+16, l1Y+17)
	c.value(x+instanceWidth-22, l1Y+12, s)
}

// load draws the activity of the instance at x.
func (c *canvas) load(x int, doing string, l load) {
	c.add(`<rect class="load %s" x="%d" y="%d" width="%d" height="22" rx="11"/>`, l, x+8, loadY, instanceWidth-16)
	c.add(`<text class="load %s" x="%d" y="%d">%s</text>`, l, x+instanceWidth/2, loadY+15, doing)
}

// remote draws L2.
func (c *canvas) remote(s state) {
	c.add(`<rect class="tier" x="%d" y="%d" width="%d" height="36" rx="8"/>`, remoteX, remoteY, panelWidth-remoteX)
	c.add(`<text class="name" x="%d" y="%d">L2 <tspan class="quiet">Redis, for all instances</tspan></text>`, remoteX+12, remoteY+23)
	c.value(panelWidth-22, remoteY+18, s)
}

// origin draws the origin.
func (c *canvas) origin() {
	c.add(`<rect class="origin" x="0" y="%d" width="%d" height="36" rx="8"/>`, originY, panelWidth)
	c.add(`<text class="name" x="12" y="%d">Origin <tspan class="quiet">your database or service</tspan></text>`, originY+23)
}

// value draws the value of a tier, with its centre at x and y.
func (c *canvas) value(x, y int, s state) {
	c.add(`<rect class="value %s" x="%d" y="%d" width="14" height="14" rx="3"/>`, s, x-7, y-7)
	if s == dropped {
		c.add(`<path class="cross" d="M%d %dl8 8m0 -8l-8 8"/>`, x-4, y-4)
	}
}

// step draws the number of a step, with its centre at x and y.
func (c *canvas) step(n, x, y int) {
	c.add(`<circle class="step" cx="%d" cy="%d" r="8.5"/>`, x, y)
	c.add(`<text class="step" x="%d" y="%d">%d</text>`, x, y+4, n)
}

// arrow draws a vertical arrow from y1 to y2.
func (c *canvas) arrow(x, y1, y2 int) {
	c.shaft(x, y1, y2)
	c.head(x, y1, y2)
}

// both draws a vertical arrow with two heads.
func (c *canvas) both(x, y1, y2 int) {
	c.shaft(x, y1, y2)
	c.head(x, y1, y2)
	c.head(x, y2, y1)
}

func (c *canvas) shaft(x, y1, y2 int) {
	c.add(`<path class="shaft" d="M%d %dV%d"/>`, x, y1, y2)
}

// head draws the head of an arrow that comes from y1 and ends at y2.
func (c *canvas) head(x, y1, y2 int) {
	back := -7
	if y2 < y1 {
		back = 7
	}
	c.add(`<path class="head" d="M%d %dl-4.5 %dh9z"/>`, x, y2, back)
}
