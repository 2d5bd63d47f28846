package main

import "strings"

// Styles of light pages, and of dark ones where those differ. The picture has a
// background of its own, so it is legible on any page.
const (
	lightStyle = `
text { font: 12px -apple-system, BlinkMacSystemFont, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; fill: #1f2328 }
.page { fill: #ffffff; stroke: #d1d9e0 }
.rule { stroke: #d1d9e0; stroke-dasharray: 2 4 }
.title { font-size: 17px; font-weight: 600 }
.name { font-size: 13px; font-weight: 600 }
.quiet { font-size: 12px; font-weight: 400; fill: #59636e }
.caption { font-size: 12.5px }
.caller { fill: #59636e }
.instance { fill: #f6f8fa; stroke: #d1d9e0 }
.tier { fill: #ffffff; stroke: #8c959f }
.origin { fill: #eaeef2; stroke: #8c959f }
.dim { opacity: .4 }
.value { stroke-width: 1.5 }
.absent, .dropped { fill: none; stroke: #8c959f; stroke-dasharray: 2.5 2 }
.cross { stroke-width: 2; stroke-linecap: round }
rect.load { fill: none; stroke: #8c959f; stroke-dasharray: 3 2.5 }
text.load { font-size: 11.5px; fill: #59636e; text-anchor: middle }
text.fenced { text-decoration: line-through }
text.step { font-size: 11px; font-weight: 700; fill: #ffffff; text-anchor: middle }
.shaft { stroke-width: 1.8 }
`
	darkStyle = `
text { fill: #f0f6fc }
.page { fill: #0d1117; stroke: #3d444d }
.rule { stroke: #3d444d }
.quiet, text.load { fill: #9198a1 }
.caller { fill: #9198a1 }
.instance { fill: #151b23; stroke: #3d444d }
.tier { fill: #0d1117; stroke: #656c76 }
.origin { fill: #212830; stroke: #656c76 }
.absent, .dropped, rect.load { stroke: #656c76 }
text.step { fill: #0d1117 }
`
	// flowStyle has the colour of one panel.
	flowStyle = `.FLOW .title, .FLOW circle.step, .FLOW .head, .FLOW .fresh, .FLOW .stored, .FLOW text.active { fill: COLOUR }
.FLOW .shaft, .FLOW .fresh, .FLOW .stored, .FLOW .cross, .FLOW rect.active { stroke: COLOUR }
`
)

// style returns the style sheet of the picture.
func style() string {
	light := lightStyle + flow("hit", "#1a7f37") + flow("miss", "#0969da") + flow("drop", "#cf222e")
	dark := darkStyle + flow("hit", "#3fb950") + flow("miss", "#4493f8") + flow("drop", "#f85149")
	return light + "@media (prefers-color-scheme: dark) {" + dark + "}\n" //nolint:misspell // the name is defined by CSS
}

func flow(name, colour string) string {
	return strings.NewReplacer("FLOW", name, "COLOUR", colour).Replace(flowStyle)
}
