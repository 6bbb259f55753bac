"""The page's own style; nothing is loaded from anywhere. Colours are the console's, checked on white and on #10151B."""

STYLE = """
:root { color-scheme: light dark; --page: #FFFFFF; --surface: #F4F6F8; --ink: #1B222B; --soft: #D5DAE0;
  --need: #C3C9D1; --first: #1A82DC; --second: #A31B2E;
  --model-0: #1A82DC; --model-1: #A67D00; --model-2: #3B1667; --model-3: #2E8B6F;
  --model-4: #C2571A; --model-5: #7A5CC7; --model-6: #5E6B2A; --model-7: #B0437E; }
@media screen and (prefers-color-scheme: dark) { :root { --page: #10151B; --surface: #1A2129; --ink: #E6EDF3;
  --soft: #39424D; --need: #4A545F; --first: #A9D3F5; --second: #FF6B70;
  --model-0: #A9D3F5; --model-1: #F7D27E; --model-2: #B566EE; --model-3: #5CC8A4;
  --model-4: #F0935A; --model-5: #8F9BF0; --model-6: #B9C96A; --model-7: #F08CBF; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 16px; max-width: 1040px; background: var(--page); color: var(--ink);
  font: 16px/24px system-ui, sans-serif; font-variant-numeric: tabular-nums; }
h1 { font-size: 28px; line-height: 36px; margin: 8px 0; }
h2 { font-size: 20px; line-height: 28px; margin: 32px 0 4px; }
p { margin: 4px 0; max-width: 46em; }
figure { margin: 8px 0 0; }
.scroll { overflow-x: auto; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--first); outline-offset: 2px; }
svg { display: block; width: 100%; min-width: 720px; height: auto; }
.beside { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(340px, 100%), 1fr)); gap: 8px 16px; }
.beside svg { min-width: 0; }
.beside figcaption { font-size: 14px; line-height: 20px; }
figure.narrow { display: none; } figure.narrow svg { min-width: 0; }
@media screen and (max-width: 720px) { h1 { font-size: 22px; line-height: 28px; }
  figure.wide { display: none; } figure.narrow { display: block; } }
.moves td { text-align: left; white-space: normal; }
.moves th { vertical-align: top; font-weight: normal; }
svg text { font-family: system-ui, sans-serif; }
table { border-collapse: collapse; font-size: 14px; line-height: 20px; margin: 8px 0; }
th, td { padding: 4px 12px 4px 0; text-align: right; border-bottom: 1px solid var(--soft); white-space: nowrap; }
th:first-child { text-align: left; }
.part th { font-weight: normal; padding-left: 16px; }
thead th { vertical-align: bottom; }
ul.keys { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 8px 0 0; padding: 0;
  font-size: 14px; }
ul.keys svg { display: inline-block; width: 28px; min-width: 0; height: 12px; margin-right: 6px; vertical-align: -1px; }
summary { cursor: pointer; font-size: 14px; min-height: 24px; }
footer { margin-top: 40px; font-size: 14px; line-height: 20px; }
@media (max-width: 480px) { th, td { padding: 4px 6px 4px 0; font-size: 12px; } tbody th { white-space: normal; }
  .part th { padding-left: 8px; } }
@media print { :root { color-scheme: light; } body { max-width: none; padding: 0; font-size: 11pt; line-height: 15pt; }
  figure, tr, ul.keys { break-inside: avoid; } h2 { break-after: avoid; } thead { display: table-header-group; }
  details::details-content { content-visibility: visible; } .scroll { overflow: visible; } svg { min-width: 0; }
  table { font-size: 8.5pt; line-height: 12pt; } th, td { padding: 2px 8px 2px 0; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""
