"""A chat endpoint of this machine that answers what a test's script says, well or badly."""

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from berdslib.data.records import Passage
from berdslib.judging.base import Pair
from berdslib.llm.chat import Endpoint, Reply

SECRET = "sk-" + "abcdefghij" * 3
ASK = [{"role": "user", "content": "Well?"}]


def pair(text="cats are kind", perspective="Cats are kind.", docno="d"):
    return Pair("q", 0, Passage(docno, text), perspective)


def answer(text="Yes", top=None):
    choice = {"message": {"content": text}, "finish_reason": "stop"}
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
            if status == "raw":  # bytes in place of a whole response, one after the other
                with contextlib.suppress(ConnectionError):  # whoever asked has left
                    for some in content:
                        self.wfile.write(some)
                self.connection.close()
                return
            raw = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(raw))}.items():
                self.send_header(name, value)
            self.end_headers()
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

    def make(**options):
        return Endpoint("some-model", **{"base_url": f"http://127.0.0.1:{server.server_port}/v1", **options})

    return make


class Saying:
    """A chat model that always says the same."""

    def __init__(self, text, id="saying"):
        self.text, self.id = text, id

    def complete(self, messages):
        return Reply(self.text)
