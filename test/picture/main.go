// Command picture draws docs/read.svg, the picture of the README: a hit, a miss
// and an invalidation through L1, L2, the origin and another instance.
//
//	go run ./test/picture > docs/read.svg
//
// It draws the same bytes each time; a test compares them with the file.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if _, err := io.WriteString(os.Stdout, draw()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// draw returns the picture as SVG.
func draw() string {
	var c canvas
	c.open()
	c.panel(0, "hit", "Hit", "L1 has a fresh value", hit,
		"L1 answers in tens of nanoseconds:\nno network, no lock, no allocation.\nL2 and the origin take no part.")
	c.panel(1, "miss", "Miss", "no tier has the value", miss,
		"On each instance, callers share a flight.",
		"L2 gives the lease to one instance.",
		"That instance runs the loader, once.",
		"It stores the value in L2 and in L1.",
		"The other instances read it from L2.")
	c.panel(2, "drop", "Invalidate", "the value has changed", invalidate,
		"Your code writes to the origin.",
		"L2 drops the value and all leases.",
		"L1 drops the value; no running load\ncan store its result any more.",
		"A message tells the other instances.")
	c.close()
	return c.text.String()
}

// hit draws a read that L1 answers. Nothing else takes part.
func hit(c *canvas) {
	c.callers(left, 1)
	c.instance(left, "instance A", fresh)
	c.arrow(left+callersX-12, callersEnd, l1Y)
	c.arrow(left+callersX+12, l1Y, callersEnd)
	c.step(1, left+callersX, headY)
	c.add(`<g class="dim">`)
	c.load(left, "no load", idle)
	c.instance(right, "instance B", absent)
	c.load(right, "no load", idle)
	c.remote(fresh)
	c.origin()
	c.add("</g>")
}

// miss draws a load that two instances share.
func miss(c *canvas) {
	c.callers(left, 3)
	c.callers(right, 2)
	c.instance(left, "instance A", stored)
	c.load(left, "one load", active)
	c.instance(right, "instance B", stored)
	c.load(right, "waits", idle)
	c.remote(stored)
	c.origin()
	c.arrow(left+callersX, callersEnd, l1Y)
	c.step(1, left+callersX, headY)
	c.arrow(right+callersX, callersEnd, l1Y)
	c.step(1, right+callersX, headY)
	c.both(left+58, instanceEnd, remoteY)
	c.step(2, left+58, gapY)
	c.both(left+16, instanceEnd, originY)
	c.step(3, left+16, gapY)
	c.arrow(left+100, instanceEnd, remoteY)
	c.step(4, left+100, gapY)
	c.arrow(right+60, remoteY, instanceEnd)
	c.step(5, right+60, gapY)
}

// invalidate draws a write and the drop that follows it.
func invalidate(c *canvas) {
	c.callers(left, 1)
	c.instance(left, "instance A", dropped)
	c.load(left, "running load", fenced)
	c.instance(right, "instance B", dropped)
	c.load(right, "running load", fenced)
	c.remote(dropped)
	c.origin()
	c.arrow(left+16, instanceEnd, originY)
	c.step(1, left+16, gapY)
	c.arrow(left+79, instanceEnd, remoteY)
	c.step(2, left+79, gapY)
	c.step(3, left+callersX, headY)
	c.arrow(right+60, remoteY, instanceEnd)
	c.step(4, right+60, gapY)
}
