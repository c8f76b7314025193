"""A chat endpoint of this machine that answers what a test's script says, well or badly."""

import contextlib
import itertools
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from berdslib.data.records import Passage
from berdslib.judging.base import Pair
from berdslib.llm.chat import _LEARNT, Endpoint, Reply

SECRET = "sk-" + "abcdefghij" * 3
ASK = [{"role": "user", "content": "Well?"}]


def pair(text="cats are kind", perspective="Cats are kind.", docno="d"):
    return Pair("q", 0, Passage(docno, text), perspective)


def answer(text="Yes", top=None, finish="stop", **message):
    choice = {"message": {"content": text, **message}, "finish_reason": finish}
    if top:
        choice["logprobs"] = {"content": [{"top_logprobs": [{"token": t, "logprob": p} for t, p in top]}]}
    return 200, {}, {"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 2}}


@contextlib.contextmanager
def chat_server():
    """Run a server whose `script` says what it answers next; the last entry is repeated."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with web.lock:
                web.seen.append((self.path, self.headers, body, time.monotonic()))
                step = web.script.pop(0) if len(web.script) > 1 else web.script[0]
            status, headers, content = step(body) if callable(step) else step
            if status == "drop":
                self.connection.close()
                return
            if status == "then":  # a response, and something to do once it is sent
                self.respond(*content[0])
                content[1]()
                return
            if status == "raw":  # bytes in place of a whole response, one after the other
                with contextlib.suppress(ConnectionError):  # whoever asked has left
                    for some in content:
                        self.wfile.write(some)
                self.connection.close()
                return
            self.respond(status, headers, content)

        def respond(self, status, headers, content):
            raw = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(raw))}.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self.wfile.write(raw)

        def log_message(self, *_):
            pass

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.seen, web.script, web.lock = [], [answer()], threading.Lock()
    thread = threading.Thread(target=web.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield web
    finally:
        web.shutdown()
        web.server_close()


def endpoint_at(server, monkeypatch):
    """Return what makes an endpoint of such a server, with a key set and short waits."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setattr("berdslib.llm.chat._FIRST_WAIT", 0.01)
    _LEARNT.clear()  # another test's server may have had this port

    def make(**options):
        return Endpoint("some-model", **{"base_url": f"http://127.0.0.1:{server.server_port}/v1", **options})

    return make


class Scheduled:
    """A step for a server's script that answers as a schedule says.

    It counts a token for each byte of what it reads, as the finest tokenizer would, and a few around each message.

    Args:
        schedule: what becomes of each request in turn, over and over: a name in ``OUTCOMES``, or a status.
        says: what is answered to a text.
    """

    OUTCOMES = ("ok", "slow", "length", "empty", "untold", "html", "truncated", "cut", "drop")

    def __init__(self, schedule=("ok",), says=str.upper, seconds=0.3):
        self.schedule, self.says, self.seconds = itertools.cycle(schedule), says, seconds
        self.asked, self.lock = [], threading.Lock()
        self.before = self.after = lambda number: None  # called with the number of the request

    def __call__(self, body):
        text = body["messages"][-1]["content"]
        with self.lock:
            self.asked.append(text)
            number, outcome = len(self.asked), next(self.schedule)
            self.before(number)
            if isinstance(outcome, int):
                return outcome, {}, {"error": {"message": "not now"}}
        if outcome == "drop":
            return "drop", {}, b""
        if outcome == "slow":
            time.sleep(self.seconds)
        usage = {
            "prompt_tokens": sum(len(m["content"].encode()) + 4 for m in body["messages"]) + 3,
            "completion_tokens": body["max_tokens"] if outcome == "length" else 1,
        }
        said = "" if outcome == "empty" else self.says(text)
        choice = {"message": {"content": said}, "finish_reason": "length" if outcome == "length" else "stop"}
        content = {"choices": [choice]} | ({} if outcome == "untold" else {"usage": usage})
        raw = json.dumps(content).encode()
        if outcome == "html":
            raw = b"<html><body>Welcome</body></html>"
        if outcome == "truncated":
            raw = raw[: len(raw) // 2]
        if outcome == "cut":
            return "raw", {}, [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(raw), raw[: len(raw) // 2]]
        return "then", {}, ((200, {}, raw), lambda: self.after(number))


class Saying:
    """A chat model that always says the same."""

    def __init__(self, text, id="saying", finish=""):
        self.text, self.id, self.finish = text, id, finish

    def complete(self, messages):
        return Reply(self.text, finish=self.finish)
