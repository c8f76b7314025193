"""From the bytes of a page to its title and text.

Pages are untrusted, and a parser can be kept busy for hours by a small one (a paragraph with a hundred thousand
attributes is enough). So pages are parsed in a process of their own, which is ended when a page takes too long.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import logging
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import TracebackType
from typing import NamedTuple

from berdslib.errors import MissingDataError, known

_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# Charsets of the web. Python knows more codecs, but some of these are no charsets, and punycode can take forever.
_CHARSET = re.compile(
    r"utf-(8|16-le|16-be)|cp\d+|iso8859-\d+|koi8-[ru]|gb18030|big5hkscs|euc_jp|iso2022_jp|mac-(roman|cyrillic)"
)
# What browsers take a charset for: mostly an extension of it, as pages name the one and are written in the other.
_AS_BROWSERS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "utf-16": "utf-16-le",
}
# Names that Python does not know, without "x-".
_MORE_NAMES = {
    "windows-31j": "cp932",
    "windows-874": "cp874",
    "windows-949": "cp949",
    "ks_c_5601-1989": "cp949",
    "gb_2312-80": "gb18030",
    "unicode": "utf-16-le",
    "koi8": "koi8-r",
    "koi8-ru": "koi8-u",
    "iso-8859-8-i": "iso8859-8",
}
_META = re.compile(
    rb"""<(?:meta\b[^>]{0,1000}?\bcharset|\?xml\b[^>]{0,200}?\bencoding)\s*=\s*["']?\s*([\w.:-]{1,40})""", re.I
)
_MAGIC = (b"%PDF-", b"\x89PNG", b"\xff\xd8\xff", b"PK\x03\x04", b"\x1f\x8b", b"\x7fELF")
_MAGIC_WORDS = (b"GIF8", b"OggS", b"ID3", b"RIFF")  # text may begin with these too, but has no NUL soon after
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\ufffd]")
_LONGEST_TITLE = 300

Extractor = Callable[[str], tuple[str, str]]


class PageText(NamedTuple):
    """Title and text of a page; ``outcome`` "ok", "binary", "no text", or "parser" if that failed on it."""

    outcome: str
    title: str = ""
    text: str = ""


# ---------------------------------------------------------------- charset


def decode(body: bytes, content_type: str = "") -> str:
    """Return the text of a page: by a byte order mark, else the header, else the page's own word, else detection.

    A declared charset that does not fit the bytes is passed over, unless most of what is beyond ASCII fits: then the
    rest becomes U+FFFD. Names mean what they mean to browsers: latin-1 is Windows-1252, and gb2312 is gb18030.

    Args:
        body: the page.
        content_type: the header of this name.

    >>> decode("é".encode("latin-1"), "text/html; charset=iso-8859-1")
    'é'
    """
    for mark, charset in _BOMS.items():
        if body.startswith(mark):
            return body[len(mark) :].decode(charset, "replace")
    header = re.search(r"""charset\s*=\s*["']?\s*([\w.:-]{1,40})""", content_type, re.I)
    meta = _META.search(body[:4096])
    for declared in (header[1] if header else "", _readable(meta[1].decode("ascii", "replace")) if meta else ""):
        text = _fitting(body, declared)
        if text is not None:
            return text
    return _detected(body)


def _readable(meta: str) -> str:
    """A page whose own word could be read byte by byte is not in UTF-16, whatever it says."""
    return "utf-8" if meta.lower().startswith("utf-16") else meta


def charset_of(label: str) -> str | None:
    """Return Python's name for what browsers take a charset's name for; None for what is no charset of the web.

    >>> charset_of("ISO-8859-1")
    'cp1252'

    Source: https://encoding.spec.whatwg.org/#names-and-labels
    """
    label = label.lower().removeprefix("x-")
    try:
        charset = codecs.lookup(_MORE_NAMES.get(label, label)).name
    except (LookupError, ValueError):
        return None
    charset = _AS_BROWSERS.get(charset, charset)
    return charset if _CHARSET.fullmatch(charset) else None


def _fitting(body: bytes, declared: str) -> str | None:
    charset = charset_of(declared)
    if charset is None:
        return None
    text = body.decode(charset, "replace")
    wrong = text.count("\ufffd")
    return text if not wrong or 2 * wrong < sum(not c.isascii() for c in text) else None


def _detected(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        from charset_normalizer import from_bytes

        found = from_bytes(body[:65536])
        best = found.best()
        # Several charsets of one byte often fit equally well; then it is the one that browsers assume.
        usual = any(m.encoding == "cp1252" and m.chaos <= best.chaos for m in found) if best else False
        return body.decode("cp1252" if usual else best.encoding if best else "utf-8", "replace")


# ---------------------------------------------------------------- text


def _trafilatura(html: str) -> tuple[str, str]:
    import trafilatura

    tree = trafilatura.load_html(html)
    if tree is None:
        return "", ""
    return tree.findtext(".//title") or "", trafilatura.extract(tree, include_comments=False) or ""


def _readability(html: str) -> tuple[str, str]:
    document = import_module("readability").Document(html)
    writer = import_module("html2text").HTML2Text(bodywidth=0)
    writer.ignore_links = writer.ignore_images = True
    return document.title(), writer.handle(document.summary())


EXTRACTORS: dict[str, Extractor] = {"trafilatura": _trafilatura, "readability+html2text": _readability}


def check_extractor(name: str) -> str:
    """Return the name of an extractor that can be used here.

    Raises:
        InputError: there is none of this name.
        MissingDataError: its packages are not installed.
    """
    for module in known("extractor", name, EXTRACTORS).split("+"):
        if find_spec(module) is None:
            package = module if module == "trafilatura" else "'berdslib[web-paper]'"
            raise MissingDataError(f"extractor {name!r} needs {module}; install with: pip install {package}")
    return name


def page_text(body: bytes, content_type: str = "", extractor: str = "trafilatura") -> PageText:
    """Return title and text of a page, in this process and without a time limit; see :class:`TextReader`.

    Args:
        body: the page as it came.
        content_type: the header of this name; plain text is taken as it is.
        extractor: a name in EXTRACTORS.

    Source: BeRDS section 4.2 ("readability+html2text"); trafilatura is our default.
    """
    text = decode(body, content_type)
    if _is_binary(body) or 20 * len(_CONTROL.findall(text)) > len(text):
        return PageText("binary")
    kind = content_type.partition(";")[0].strip().lower()
    title = ""
    if kind != "text/plain" and (kind or "<" in text[:1024]):
        try:
            title, text = EXTRACTORS[extractor](_CONTROL.sub(" ", text))
        except Exception as error:  # noqa: BLE001  the libraries document no errors, and the page is anything at all
            logging.getLogger(__name__).info("the parser failed: %r", error)
            return PageText("parser")
    text = _CONTROL.sub(" ", text).strip()
    return PageText("ok" if text else "no text", " ".join(_CONTROL.sub(" ", title).split())[:_LONGEST_TITLE], text)


def _is_binary(body: bytes) -> bool:
    return body.startswith(_MAGIC) or (body.startswith(_MAGIC_WORDS) and b"\0" in body[:32])


# ---------------------------------------------------------------- a process of its own


class TextReader:
    """Reads pages in another process, one at a time; a context manager.

    Args:
        extractor: a name in EXTRACTORS.
        seconds: for a page; one that takes longer has the outcome "parser".

    Raises:
        InputError: an unknown extractor.
        MissingDataError: its packages are not installed.
    """

    def __init__(self, extractor: str = "trafilatura", seconds: float = 20.0) -> None:
        self.extractor, self.seconds = check_extractor(extractor), seconds
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> TextReader:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    def read(self, body: bytes, content_type: str = "") -> PageText:
        """Return title and text of a page.

        Raises:
            MissingDataError: the other process does not start.
        """
        process = self._process
        if process is None or process.poll() is not None:
            process = self._start()
        timer = threading.Timer(self.seconds, process.kill)
        timer.start()
        try:
            _send(process, {"size": len(body), "content_type": content_type, "extractor": self.extractor}, body)
            answer = _receive(process)
        finally:
            timer.cancel()
        if answer is None:  # it was too slow, or the page broke it
            self._stop()
            return PageText("parser")
        return PageText(*answer)

    def _start(self) -> subprocess.Popen[bytes]:
        self._stop()
        command = [sys.executable, "-m", __name__]
        # A session of its own: Ctrl-C is for us, and closing its input ends it.
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self._process = process
        if _receive(process) != ["ready"]:
            self._stop()
            raise MissingDataError(f"the process that reads pages does not start ({sys.executable} -m {__name__})")
        return process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def _send(process: subprocess.Popen[bytes], note: dict[str, object], body: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended, which the missing answer will tell
        process.stdin.write(json.dumps(note).encode() + b"\n" + body)
        process.stdin.flush()


def _receive(process: subprocess.Popen[bytes]) -> list[str] | None:
    assert process.stdout is not None
    line = process.stdout.readline()
    return json.loads(line) if line.endswith(b"\n") else None


def _serve() -> None:
    """Answer pages from standard input until it closes."""
    logging.disable()  # the libraries complain about pages; outcomes tell what is to be told
    import trafilatura  # noqa: F401  loaded now, so that no page's time goes into it

    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing but answers may go there
    note = b""
    reply: tuple[str, ...] = ("ready",)
    while True:
        answers.write(json.dumps(reply).encode() + b"\n")
        answers.flush()
        note = requests.readline()
        if not note:
            return
        asked = json.loads(note)
        reply = page_text(requests.read(asked["size"]), asked["content_type"], asked["extractor"])


if __name__ == "__main__":
    _serve()
