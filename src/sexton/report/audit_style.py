"""How the audit's page looks: light and dark, wide and narrow, on a screen and on paper.

One style sheet inside the page, system fonts, no script: it opens from a mail attachment or an air
gap as from a web server. Colours are named once, for each scheme.
"""

from __future__ import annotations

CSS = """
:root{color-scheme:light dark;
--back:#fbfaf7;--card:#fff;--ink:#1d2126;--soft:#5b6470;--line:#dfdcd3;--code:#f2efe7;
--bad:#b3261e;--bad-back:#fdecea;--warn:#8a5a00;--warn-back:#fff4d9;--good:#1c6b3a;
--good-back:#e5f4ea;--note:#2a5d8f;--note-back:#e6f0fa;--mark:#f6c945;--mark-back:#fff6d6;
--value:#f0f3f6;--value-line:#9aa5b1;--grave:#e7e2f3;--grave-line:#8576b8;
--t0:#2a6fb0;--t1:#a1467a;--t2:#3c7f5c;--t3:#a06013}
@media (prefers-color-scheme:dark){:root{
--back:#14171b;--card:#1c2026;--ink:#e6e8eb;--soft:#9aa4b0;--line:#333a43;--code:#252b33;
--bad:#ff9b92;--bad-back:#43211f;--warn:#f2c46d;--warn-back:#3d3117;--good:#85d3a2;
--good-back:#1b3a28;--note:#8fc1f2;--note-back:#1d3348;--mark:#e0b02c;--mark-back:#403510;
--value:#29303a;--value-line:#66717e;--grave:#332d4a;--grave-line:#9d8fd3;
--t0:#74b3ee;--t1:#e291bf;--t2:#82cfa5;--t3:#e0a95d}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--back);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
main,header.top,footer{max-width:70rem;margin:0 auto;padding:0 1.25rem}
header.top{padding-top:2.5rem}
h1{font-size:clamp(1.5rem,1.1rem + 1.8vw,2.25rem);line-height:1.2;margin:.35rem 0 .6rem;
letter-spacing:-.015em;text-wrap:balance}
h2{font-size:1.35rem;margin:2.75rem 0 .75rem;letter-spacing:-.01em}
h3{font-size:1.1rem;margin:2rem 0 .35rem}
h4{font-size:.95rem;margin:1.25rem 0 .35rem}
p{margin:.4rem 0;max-width:46rem}
h1,h4,p{overflow-wrap:anywhere}
a{color:var(--note);text-underline-offset:.15em}
code,pre,.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
font-size:.88em}
code{overflow-wrap:anywhere}
.eyebrow{color:var(--soft);font-size:.9rem;margin:0}
.soft{color:var(--soft)}
.badge{display:inline-block;padding:.1rem .55rem;border-radius:1rem;font-size:.8rem;
font-weight:600;white-space:nowrap}
.differ,.unsound,.error{color:var(--bad);background:var(--bad-back)}
.incomplete,.warning,.unread{color:var(--warn);background:var(--warn-back)}
.agree{color:var(--good);background:var(--good-back)}
.note,.alone{color:var(--note);background:var(--note-back)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(7.5rem,1fr));gap:.75rem;
margin:1.5rem 0;padding:0}
.tiles div{background:var(--card);border:1px solid var(--line);border-radius:.6rem;
padding:.7rem .9rem}
.tiles .wide{grid-column:1/-1}
.tiles dt{color:var(--soft);font-size:.82rem}
.tiles dd{margin:0;font-size:1.15rem;font-weight:600;overflow-wrap:anywhere;
font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto;margin:.5rem 0}
:focus-visible{outline:2px solid var(--note);outline-offset:2px;border-radius:.2rem}
table{border-collapse:collapse;width:100%;font-size:.92rem;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.42rem .8rem .42rem 0;border-bottom:1px solid var(--line);
vertical-align:top}
th{color:var(--soft);font-weight:500;font-size:.82rem;white-space:nowrap}
td.n,th.n{text-align:right;white-space:nowrap}
td.name{font-weight:600;overflow-wrap:anywhere;min-width:9rem}
.callout{border-left:4px solid var(--warn);background:var(--warn-back);
border-radius:0 .5rem .5rem 0;padding:.65rem 1rem;margin:1rem 0;color:var(--ink)}
.callout h3{margin:0 0 .2rem;font-size:1rem}
.callout ul{margin:.2rem 0;padding-left:1.2rem}
details{margin:.6rem 0}
summary{cursor:pointer;color:var(--note)}
.finding{background:var(--card);border:1px solid var(--line);border-radius:.8rem;
padding:1.1rem 1.35rem 1.2rem;margin:1rem 0}
.finding>header{display:flex;flex-wrap:wrap;gap:.35rem .7rem;align-items:center}
.finding>header h4{margin:0;font-size:1rem}
.finding>header a{margin-left:auto;color:var(--soft);font-size:.85rem;text-decoration:none}
.finding .message{font-size:1.08rem;margin:.55rem 0 .2rem}
dl.facts{display:grid;grid-template-columns:max-content 1fr;gap:.3rem 1.25rem;margin:.9rem 0 0}
dl.facts dt{color:var(--soft)}
dl.facts dd{margin:0;max-width:46rem;overflow-wrap:anywhere}
.sure{color:var(--soft)}
table.held{width:auto;margin:.6rem 0 0}
table.held td,table.held th{padding-right:1.5rem;white-space:nowrap}
ol.steps{padding-left:1.3rem;margin:.3rem 0}
ol.steps li{margin:.45rem 0}
pre{background:var(--code);border-radius:.4rem;padding:.5rem .75rem;margin:.35rem 0;
white-space:pre-wrap;overflow-wrap:anywhere;line-height:1.5}
pre code{display:block;padding-left:1.5rem;text-indent:-1.5rem}
td code{white-space:nowrap}
figure{margin:.8rem 0 0}
figcaption{color:var(--soft);font-size:.82rem;margin-top:.1rem}
figcaption span{white-space:nowrap;margin-right:.9rem}
footer{color:var(--soft);font-size:.85rem;padding-top:2rem;padding-bottom:3rem}
svg.log{display:block;height:auto;max-width:max(100%,40rem)}
svg.log text{fill:var(--ink);font-family:inherit;font-size:12px}
svg.log .offset{fill:var(--soft);font-size:11.5px}
svg.log .faint{fill:var(--soft)}
svg.log .small{fill:var(--soft);font-size:11px}
svg.log .who{font-weight:600;font-size:13px}
svg.log .right .stand{fill:var(--good);font-weight:600}
svg.log .wrong .stand{fill:var(--bad);font-weight:600}
svg.log rect{fill:var(--value);stroke:var(--value-line)}
svg.log .key{font-weight:600}
svg.log .value-text{font-size:11px;fill:var(--soft)}
svg.log .tombstone rect{fill:var(--grave);stroke:var(--grave-line)}
svg.log .commit rect{fill:var(--good-back);stroke:var(--good)}
svg.log .commit .key{fill:var(--good)}
svg.log .abort rect{fill:var(--bad-back);stroke:var(--bad)}
svg.log .abort .key{fill:var(--bad)}
svg.log .empty rect,svg.log rect.removed{fill:none;stroke-dasharray:2 3}
svg.log .damaged rect{fill:var(--bad-back);stroke:var(--bad);stroke-dasharray:2 3}
svg.log .damaged .key{fill:var(--bad)}
svg.log .empty .key{font-weight:400;fill:var(--soft)}
svg.log .value.marked rect{fill:var(--mark-back)}
svg.log .marked rect{stroke:var(--mark);stroke-width:2.5}
svg.log .open rect{stroke-dasharray:5 3}
svg.log .strike{stroke:var(--bad);stroke-width:1.5}
svg.log .gap{stroke:var(--value-line);stroke-width:1.5;stroke-dasharray:3 5;fill:none}
svg.log rect.before,svg.log rect.past,svg.log rect.unseen{fill:none;stroke:none}
svg.log .mark{stroke:var(--ink);stroke-width:1.5;fill:none}
svg.log .mark-name{font-size:10px;font-weight:600}
svg.log .bracket{fill:none;stroke-width:2}
svg.log .txn{font-size:11px}
.txn-0 path{stroke:var(--t0)}svg.log .txn-0 text,.txn-0 .arrow{fill:var(--t0)}
.txn-1 path{stroke:var(--t1)}svg.log .txn-1 text,.txn-1 .arrow{fill:var(--t1)}
.txn-2 path{stroke:var(--t2)}svg.log .txn-2 text,.txn-2 .arrow{fill:var(--t2)}
.txn-3 path{stroke:var(--t3)}svg.log .txn-3 text,.txn-3 .arrow{fill:var(--t3)}
svg.log g.open .bracket{stroke-dasharray:6 3}
@media (max-width:40rem){
dl.facts{grid-template-columns:1fr;gap:0}
dl.facts dd{margin-bottom:.5rem}
.finding{padding:.9rem 1rem}}
@media print{
:root{color-scheme:light}
h2,h3,h4,h3+p,.finding>header,.message{break-after:avoid}
figure,pre,li,tr,dl{break-inside:avoid}
.finding{box-decoration-break:clone;-webkit-box-decoration-break:clone}
table.held{break-inside:avoid}
body{font-size:11pt;background:#fff}
.finding,.tiles div{border-color:#999}
.scroll{overflow:visible}svg.log{max-width:100%}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""
