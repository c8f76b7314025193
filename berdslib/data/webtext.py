"""From the bytes of a page to its title and text.

Pages are untrusted, and a parser can be kept busy for hours by a small one (a paragraph with a hundred thousand
attributes is enough). So pages are parsed in a process of their own, which is ended when a page takes too long.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
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
from berdslib.paths import PACKAGE

# Codecs of Python that are no charsets of the web; some fail on bytes, and punycode can take forever.
_NO_CHARSETS = frozenset({
    "punycode", "idna", "unicode-escape", "raw-unicode-escape", "undefined",
    "zlib", "bz2", "hex", "base64", "quopri", "uu", "rot-13",
})  # fmt: skip
# Text may begin with the words in the second line too, but has no NUL soon after.
_BINARY = re.compile(
    rb"%PDF-|\x89PNG|\xff\xd8\xff|PK\x03\x04|\x1f\x8b|\x7fELF"
    rb"|(?=.{0,31}\0)(?:GIF8|OggS|ID3|RIFF)",
    re.DOTALL,
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\ufffd]")
_LONGEST_TITLE = 300

Extractor = Callable[[str], tuple[str, str]]


class PageText(NamedTuple):
    """Title and text of a page; ``outcome`` "ok", "binary", "no text", or "parser" if that failed on it."""

    outcome: str
    title: str = ""
    text: str = ""


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
    from w3lib.encoding import html_body_declared_encoding, http_content_type_encoding, read_bom, to_unicode

    charset, mark = read_bom(body)
    if charset and mark:
        return to_unicode(body[len(mark) :], charset)
    meta = html_body_declared_encoding(body) or ""
    meta = "utf-8" if meta.startswith("utf-16") else meta  # else its own word could not be read byte by byte
    for declared in (http_content_type_encoding(content_type), meta):
        if declared and declared not in _NO_CHARSETS:
            text = to_unicode(body, declared)
            wrong = text.count("\ufffd")
            if not wrong or 2 * wrong < sum(not c.isascii() for c in text):
                return text
    return _detected(body)


def _detected(body: bytes) -> str:
    from charset_normalizer import from_bytes

    with contextlib.suppress(UnicodeDecodeError):
        return body.decode("utf-8")
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
    if _BINARY.match(body) or 20 * len(_CONTROL.findall(text)) > len(text):
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
        # A session of its own: Ctrl-C is for us, and closing its input ends it.
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _READER, *_import_folders()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            cwd=PACKAGE,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        )
        self._process = process
        if _receive(process) != ["ready"]:
            self._stop()
            raise MissingDataError(f"the process that reads pages does not start ({sys.executable})")
        return process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


_READER = "import sys; sys.path[:] = sys.argv[1:]; from berdslib.data.webtext import serve; serve()"
_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TEMP")  # no keys for those who parse


def _import_folders() -> list[str]:
    """Return where the reader imports from: where this process does, but never from the current folder.

    That may be a folder of somebody else's files, and a ``trafilatura.py`` among them would be run.
    """
    here = os.path.realpath(os.curdir)
    return [str(PACKAGE.parent), *(p for p in sys.path if os.path.isabs(p) and os.path.realpath(p) != here)]


def _send(process: subprocess.Popen[bytes], note: dict[str, object], body: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended, which the missing answer will tell
        process.stdin.write(json.dumps(note).encode() + b"\n" + body)
        process.stdin.flush()


def _receive(process: subprocess.Popen[bytes]) -> list[str] | None:
    assert process.stdout is not None
    line = process.stdout.readline()
    return json.loads(line) if line.endswith(b"\n") else None


def serve() -> None:
    """Answer pages from standard input until it closes: what the other process does."""
    logging.disable()  # the libraries complain about pages; outcomes tell what is to be told
    import trafilatura  # noqa: F401  loaded now, so that no page's time goes into it
    import w3lib.encoding  # noqa: F401

    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing but answers may go there
    reply: tuple[str, ...] = ("ready",)
    while True:
        answers.write(json.dumps(reply).encode() + b"\n")
        answers.flush()
        note = requests.readline()
        if not note:
            return
        asked = json.loads(note)
        reply = page_text(requests.read(asked["size"]), asked["content_type"], asked["extractor"])
