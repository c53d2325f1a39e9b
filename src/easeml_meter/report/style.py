"""The style sheet of reports, and the part of it that drawings need wherever they are shown."""

_PAGE = """\
:root {
  color-scheme: light dark;
  --paper: #ffffff; --card: #f6f8fa; --ink: #1c2733; --quiet: #55606b; --line: #cfd6dd;
  --track: #e4e8ec; --tolerance: #a3acb5; --validation: #0062a8; --test: #b34700;
  --wrong: #9b1c31; --link: #0062a8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #12161b; --card: #1a2027; --ink: #e8ebee; --quiet: #a8b1ba; --line: #39424c;
    --track: #2a323b; --tolerance: #6f7a85; --validation: #6cb6f5; --test: #f2a35e;
    --wrong: #ff8193; --link: #6cb6f5;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 3rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.55 system-ui, "Segoe UI", Helvetica, Arial, sans-serif;
  overflow-wrap: anywhere;
}
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p, ul, dl { margin: .5rem 0; }
ul { padding-left: 1.25rem; }
code { background: var(--card); border: 1px solid var(--line); border-radius: 4px; }
code { padding: 0 .3em; white-space: nowrap; }
.m-phase {
  display: inline-block; border: 1px solid currentColor; border-radius: 1rem; padding: 0 .7rem;
  font-weight: 600;
}
.m-quiet { color: var(--quiet); }
.m-now { background: var(--card); border-left: 4px solid var(--link); padding: .25rem 1rem; }
.m-scroll { overflow-x: auto; max-width: 100%; }
.m-scroll:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
figure { margin: .5rem 0; }
figcaption { color: var(--quiet); font-size: .9rem; }
.m-facts { display: grid; gap: .1rem 1rem; }
.m-facts { grid-template-columns: minmax(0, max-content) max-content; }
.m-facts dt { color: var(--quiet); }
.m-facts dd { margin: 0; font-weight: 600; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--quiet); padding-bottom: .25rem; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line); }
td { vertical-align: top; white-space: nowrap; }
th { vertical-align: bottom; overflow-wrap: normal; }
td:first-child, th:first-child { text-align: right; }
td > bdi { display: inline-block; white-space: normal; min-width: 8rem; max-width: 16rem; }
.m-no { color: var(--wrong); }
.m-dot { width: 10px; height: 10px; margin-right: .4em; }
@media print { .m-scroll { overflow: visible; } }
"""

DRAWINGS = """\
svg.m-svg { display: block; color: var(--ink); }
@media (min-width: 48rem) { svg.m-small { width: 34rem; height: auto; } }
svg .m-paper { fill: none; }
svg .m-quiet { fill: var(--quiet); }
svg .m-track { fill: var(--track); }
svg .m-grid { stroke: var(--track); }
svg .m-tol { fill: var(--tolerance); }
svg .m-validation { fill: var(--validation); stroke: var(--validation); }
svg .m-test { fill: var(--test); stroke: var(--test); }
svg .m-wrong { stroke: var(--wrong); }
svg .m-chosen { fill: var(--ink); }
@media (prefers-color-scheme: dark) {
  svg .m-line-0 { stroke: #c9a2e8; }
  svg .m-line-1 { stroke: #f2a35e; }
  svg .m-line-2 { stroke: #ffe9d2; }
  svg .m-line-3 { stroke: #6cb6f5; }
  svg .m-line-4 { stroke: #8a95a0; }
  svg .m-line-5 { stroke: #55d6ae; }
}
"""
"""The rules of drawings alone, for pages with a style of their own."""

STYLE = _PAGE + DRAWINGS
