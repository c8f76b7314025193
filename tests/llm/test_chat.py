"""The endpoint, against a local server that misbehaves."""

import asyncio
import base64
import contextlib
import json
import time

import pytest
from chat_server import ASK, SECRET, Billing, answer, chat_server, endpoint_at

from berdslib.errors import InputError
from berdslib.llm.chat import Bill, ChatError, Endpoint, RefusedError, Reply, Tokens, UnavailableError, most_tokens


@pytest.fixture
def server():
    with chat_server() as web:
        yield web


@pytest.fixture
def endpoint(server, monkeypatch):
    return endpoint_at(server, monkeypatch)


@pytest.mark.slow
def test_a_request_is_what_the_contract_says(server, endpoint):
    server.script = [answer("No", [("No", -0.1), ("Yes", -2.4)])]
    reply = endpoint().complete(ASK)
    assert reply == Reply("No", (("No", -0.1), ("Yes", -2.4)), "stop", 100, 2)
    path, headers, body, _ = server.seen[0]
    assert path == "/v1/chat/completions" and headers["Authorization"] == f"Bearer {SECRET}"
    assert body["messages"] == ASK and body["temperature"] == 0 and body["logprobs"] is True


@pytest.mark.parametrize(
    "failure", [(429, {"Retry-After": "0.2"}, {}), (503, {}, {}), (500, {}, {}), ("drop", {}, b"")]
)
def test_failures_that_may_pass_are_tried_again(server, endpoint, failure):
    server.script = [failure, failure, answer()]
    started = time.monotonic()
    assert endpoint().complete(ASK).text == "Yes"
    assert len(server.seen) == 3
    if failure[0] == 429:
        assert time.monotonic() - started >= 0.4  # as long as the server asked


def test_it_gives_up_in_the_end(server, endpoint):
    server.script = [(503, {}, {"error": {"message": "overloaded"}})]
    with pytest.raises(ChatError, match="status 503: overloaded"):
        endpoint(max_retries=2).complete(ASK)
    assert len(server.seen) == 3


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_named_by_its_variable_and_never_shown(server, endpoint, status):
    server.script = [(status, {}, {"error": {"message": f"Incorrect API key provided: {SECRET}"}})]
    with pytest.raises(ChatError, match="OPENAI_API_KEY is refused") as caught:
        endpoint().complete(ASK)
    assert SECRET not in str(caught.value) and len(server.seen) == 1


def test_other_refusals_say_what_the_server_says_without_keys(server, endpoint):
    server.script = [(400, {}, {"error": {"message": f"no such model {SECRET} here"}})]
    with pytest.raises(ChatError, match="status 400: no such model … here"):
        endpoint().complete(ASK)
    assert SECRET not in repr(vars(endpoint()))


@pytest.mark.parametrize("content", [b"<html>", b"[]", b'{"choices": []}', b'{"choices": [{"message": null}]}'])
def test_an_answer_in_another_form_is_an_error(server, endpoint, content):
    server.script = [(200, {}, content)]
    with pytest.raises(ChatError, match="another form"):
        endpoint().complete(ASK)


def test_nobody_there():
    with pytest.raises(ChatError, match=r"no answer from http://127.0.0.1:9"):
        Endpoint("m", base_url="http://127.0.0.1:9/v1", max_retries=0).complete(ASK)
    with pytest.raises(InputError, match="http or https"):
        Endpoint("m", base_url="file:///etc")


@pytest.mark.parametrize(
    "broken",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{",
        b"nothing of the kind\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
    ],
)
def test_s10_a_broken_response_is_asked_for_again_and_is_an_error_in_the_end(server, endpoint, broken):
    server.script = [("raw", {}, [broken]), answer()]
    assert endpoint().complete(ASK).text == "Yes"
    server.script = [("raw", {}, [broken])]
    with pytest.raises(ChatError, match=r"no answer from http://127.*after 2 attempts"):
        endpoint(max_retries=1).complete(ASK)
    assert len(server.seen) == 4


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n", b"HTTP/1.1 200 OK\r\nX-Slow: "])
def test_s12_a_server_that_drips_is_left_at_the_deadline(server, endpoint, start):
    def drip():
        yield start
        for _ in range(50):
            time.sleep(0.1)
            yield b"x"

    server.script = [lambda body: ("raw", {}, drip())]
    with pytest.raises(ChatError, match=r"no answer from http://127.*within 0.5 seconds"):
        endpoint(deadline=0.5).complete(ASK)


def test_an_answer_too_large_to_be_one_is_not_read_to_its_end(server, endpoint, monkeypatch):
    monkeypatch.setattr("berdslib.llm.chat._LARGEST", 1000)
    server.script = [answer("Yes " * 400)]
    with pytest.raises(ChatError, match="more than 1000 bytes"):
        endpoint().complete(ASK)
    assert len(server.seen) == 1


@pytest.mark.parametrize("running", [False, True])
def test_it_answers_in_a_notebook_too(server, endpoint, running):
    """There an event loop is running already."""

    async def cell():
        return endpoint().complete(ASK).text

    assert (asyncio.run(cell()) if running else endpoint().complete(ASK).text) == "Yes"


SCHEMA = {"type": "object", "additionalProperties": {"type": "string"}}


def test_a_schema_is_asked_for_where_there_is_one(server, endpoint):
    endpoint(schema=SCHEMA).complete(ASK)
    endpoint().complete(ASK)
    asked, plain = (seen[2] for seen in server.seen)
    assert asked["response_format"]["json_schema"]["schema"] == SCHEMA and "response_format" not in plain
    assert endpoint(schema=SCHEMA).id != endpoint().id


def test_a_server_without_schemas_is_asked_without_and_that_is_said(server, endpoint, caplog):
    refusal = (400, {}, {"error": {"message": "response_format is not supported"}})
    server.script = [lambda body: refusal if "response_format" in body else answer()]
    model = endpoint(schema=SCHEMA)
    assert [model.complete(ASK).text for _ in range(2)] == ["Yes", "Yes"]
    assert ["response_format" in seen[2] for seen in server.seen] == [True, False, False]
    assert "takes no schema" in caplog.text


@pytest.mark.parametrize(
    "bad",
    [
        {"max_retries": -1},
        {"timeout": 0},
        {"deadline": float("nan")},
        {"max_tokens": 0},
    ],
)
def test_unusable_settings_are_refused(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        Endpoint("m", **bad)


def test_the_id_holds_the_address_without_what_is_secret_in_it():
    plain = Endpoint("m", base_url="https://host:8443/v1").id
    assert "https://host:8443/v1" in plain
    assert Endpoint("m", base_url="https://me:pass-word@host:8443/v1/?key=abcdef").id == plain


HIDDEN = {"key": "very-private-value", "user": "someone", "password": "pass%2Fword", "query": "tok3n%21"}


@pytest.mark.parametrize("failure", [400, 401, 404, 500, "drop", 200])
@pytest.mark.parametrize("userinfo", ["", "someone:pass%2Fword@"])
def test_s9_no_error_and_no_log_shows_a_key(server, endpoint, monkeypatch, caplog, failure, userinfo):
    caplog.set_level("DEBUG")
    monkeypatch.setenv("OPENAI_API_KEY", HIDDEN["key"])
    said = " ".join([*HIDDEN.values(), "pass/word", "tok3n!", f"token={HIDDEN['query']}", "and more"])
    said += " " + base64.b64encode(b"someone:pass/word").decode()
    server.script = [(failure, {}, b"<html>" if failure == 200 else {"error": {"message": said}})]
    base = f"http://{userinfo}127.0.0.1:{server.server_port}/{HIDDEN['key']}/v1?token={HIDDEN['query']}"
    model = endpoint(base_url=base, max_retries=1)
    with pytest.raises(ChatError) as caught:
        model.complete(ASK)
    if failure in (400, 404, 500):
        assert "and more" in str(caught.value)
    path, headers, *_ = server.seen[0]
    assert path == f"/{HIDDEN['key']}/v1/chat/completions?token={HIDDEN['query']}"
    assert headers["Authorization"].startswith("Basic " if userinfo else f"Bearer {HIDDEN['key']}")
    hidden = [HIDDEN["key"], HIDDEN["query"], "tok3n!"] + (["someone", "pass%2Fword", "pass/word"] if userinfo else [])
    shown = "\n".join([str(caught.value), repr(caught.value.__cause__), caplog.text, model.id, repr(vars(model))])
    assert [secret for secret in hidden if secret in shown] == []


@pytest.mark.parametrize(
    "address", ["http://me:pass-word@:x/v1", "ftp://me:pass-word@host", "http://me:pass-word@[/v1"]
)
def test_an_unusable_address_is_not_shown(address):
    with pytest.raises(InputError, match="http or https") as caught:
        Endpoint("m", base_url=address)
    assert "pass-word" not in str(caught.value)


def said(**changes):
    choice = {"message": {"content": "Yes"}, **changes}
    return json.dumps({"choices": [choice]}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 200_000, b'{"choices":' * 50_000, b'{"choices": {"a": 1}}', b'{"choices": [[]]}', b'"choices"',
        b"1" * 9999,
        said(message={"content": ["Yes"]}), said(message={"content": {"a": 1}}), said(message="Yes"), b"\xff\xfe",
        said(logprobs={"content": [{"top_logprobs": [{"token": "Yes", "logprob": "much"}]}]}),
        said(logprobs={"content": [{"top_logprobs": [{"token": ["Yes"], "logprob": -1}]}]}),
        said(logprobs={"content": [{"top_logprobs": [{"token": "Yes", "logprob": 800}]}]}),
        said(logprobs={"content": [{"top_logprobs": [{"token": "Yes", "logprob": float("nan")}]}]}),
        said(logprobs={"content": [{"top_logprobs": [{"token": "Yes", "logprob": -(10**400)}]}]}),
        said(logprobs={"content": [{"top_logprobs": 3}]}), said(logprobs=[1]), said(logprobs={"content": 5}),
        said().replace(b'"Yes"', b'"Yes", "x": ' + b"9" * 9999),
    ],
)  # fmt: skip
def test_s11_a_hostile_answer_is_the_librarys_own_error(server, endpoint, content):
    server.script = [(200, {"Content-Type": "application/json"}, content)]
    with pytest.raises(ChatError, match="another form"):
        endpoint().complete(ASK)


@pytest.mark.parametrize(
    "usage",
    ["null", "[]", "7", '{"prompt_tokens": null}', '{"prompt_tokens": "many", "completion_tokens": -3}',
     '{"prompt_tokens": 1e999, "completion_tokens": [1]}', '{"prompt_tokens": 1' + "0" * 400 + "}"],
)  # fmt: skip
def test_s11_counts_of_tokens_never_spoil_an_answer(server, endpoint, usage):
    content = f'{{"choices": [{{"message": {{"content": "Yes"}}}}], "usage": {usage}}}'
    server.script = [(200, {}, content.encode())]
    assert endpoint().complete(ASK) == Reply("Yes")


def test_a_redirect_is_an_error_and_the_key_goes_nowhere_else(server, monkeypatch):
    """urllib would follow, and send the Authorization header to whatever address it is told."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    server.script = [(302, {"Location": f"http://localhost:{server.server_port}/elsewhere"}, b"")]
    with pytest.raises(ChatError, match="302"):
        Endpoint("m", base_url=f"http://127.0.0.1:{server.server_port}/v1").complete(ASK)
    assert [path for path, *_ in server.seen] == ["/v1/chat/completions"]


def test_a_key_with_a_line_break_is_refused_without_being_shown(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f"{SECRET}\nX-Other: 1")
    with pytest.raises(ChatError) as caught:
        Endpoint("m", base_url=f"http://127.0.0.1:{server.server_port}/v1").complete(ASK)
    assert SECRET not in str(caught.value) and not server.seen


# ---------------------------------------------------------------- failures that pass


@pytest.mark.parametrize("failure", ["html", "truncated", "cut", "drop", 429, 500, 502, 503])
def test_a_broken_answer_is_a_failed_attempt(server, endpoint, failure):
    server.script = [Billing([failure, failure, "ok"])]
    assert endpoint().complete(ASK).text == "WELL?"
    assert len(server.seen) == 3
    server.script = [Billing([failure])]
    with pytest.raises(UnavailableError, match=r"no answer from http://127.* after 2 attempts: ."):
        endpoint(max_retries=1).complete(ASK)
    assert len(server.seen) == 5


def test_an_answer_that_is_cut_off_or_empty_is_an_answer_and_says_so(server, endpoint):
    server.script = [Billing(["ok", "length", "empty"])]
    replies = [endpoint(max_tokens=9).complete(ASK) for _ in range(3)]
    assert [(r.text, r.finish, r.prompt_tokens, r.completion_tokens) for r in replies] == [
        ("WELL?", "stop", 12, 1),
        ("WELL?", "length", 12, 9),
        ("", "stop", 12, 9),
    ]


def test_a_slow_answer_is_waited_for_and_one_that_never_comes_is_not(server, endpoint):
    server.script = [Billing(["slow"], seconds=0.4)]
    assert endpoint(timeout=5).complete(ASK).text == "WELL?"
    with pytest.raises(UnavailableError, match=r"after 2 attempts: .*Timeout"):
        endpoint(timeout=0.1, max_retries=1).complete(ASK)


@pytest.mark.parametrize("seconds", ["3600", "inf"])
def test_a_wait_beyond_the_deadline_is_not_begun(server, endpoint, seconds):
    server.script = [(429, {"Retry-After": seconds}, {"error": {"message": "slow down"}})]
    started = time.monotonic()
    with pytest.raises(UnavailableError, match=r"after 1 attempt: status 429: slow down; it asks to wait (3600|inf)"):
        endpoint(deadline=5).complete(ASK)
    assert time.monotonic() - started < 4


@pytest.mark.parametrize(
    "asked",
    ["", "nan", "-5", "soon", "Thu, 01 Jan 1970 00:00:00 GMT", "0"],
)
def test_a_wait_that_makes_no_sense_is_our_own(server, endpoint, asked):
    server.script = [(429, {"Retry-After": asked}, {}), answer()]
    assert endpoint(deadline=5).complete(ASK).text == "Yes"


def test_an_account_without_money_is_told_at_once(server, endpoint):
    server.script = [(429, {}, {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}})]
    with pytest.raises(ChatError, match="exceeded your quota") as caught:
        endpoint().complete(ASK)
    assert not isinstance(caught.value, UnavailableError) and len(server.seen) == 1


def complaint(message, **more):
    return {"error": {"message": message, **more}}


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (400, complaint(f"flagged {SECRET}", code="content_filter")),
        (400, complaint(f"flagged {SECRET}", type="invalid_request_error", code="context_length_exceeded")),
        (413, complaint(f"flagged {SECRET}")),
        (422, complaint(f"flagged {SECRET}")),
        (200, complaint(f"flagged {SECRET}", code=400)),
        (200, complaint(f"flagged {SECRET}", code="content_filter")),
        (200, {"object": "error", "message": f"flagged {SECRET}", "code": 413}),
    ],
)
def test_what_is_refused_for_what_is_in_it_is_told_apart_and_sent_once(server, endpoint, status, content):
    server.script = [(status, {}, content)]
    with pytest.raises(RefusedError, match=r"status [0-9]{3}: flagged …$"):
        endpoint().complete(ASK)
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("status", "content", "said"),
    [
        (401, complaint("no"), "the key in the variable OPENAI_API_KEY is refused"),
        (404, complaint("no such model"), "status 404: no such model"),
        (402, complaint("pay"), "status 402: pay"),
        (400, complaint("pay", code="billing_hard_limit_reached"), "status 400: pay"),
        (200, complaint("pay", code="insufficient_quota"), "status 200: pay"),
        (200, complaint("pay", type="insufficient_quota", code=429), "status 429: pay"),
        (200, complaint("no", code=401), "the key in the variable OPENAI_API_KEY is refused"),
    ],
)
def test_what_is_refused_whatever_is_in_it_is_neither_tried_again_nor_the_messages_fault(
    server, endpoint, status, content, said
):
    server.script = [(status, {}, content)]
    with pytest.raises(ChatError, match=said) as caught:
        endpoint().complete(ASK)
    assert type(caught.value) is ChatError and len(server.seen) == 1


@pytest.mark.parametrize("content", [complaint(f"lost {SECRET} it"), {"error": f"lost {SECRET} it"},
                                     complaint(f"lost {SECRET} it", code="strange", type=None)])  # fmt: skip
def test_an_error_in_place_of_an_answer_is_shown_and_not_asked_for_again(server, endpoint, content):
    server.script = [(200, {}, content)]
    with pytest.raises(UnavailableError, match="status 200: lost … it"):
        endpoint().complete(ASK)
    assert len(server.seen) == 1


@pytest.mark.parametrize("more", [{"code": 503}, {"code": "429"}, {"code": "rate_limit_exceeded"}])
def test_an_error_in_place_of_an_answer_that_may_pass_is_tried_again(server, endpoint, more):
    server.script = [(200, {}, complaint("busy", **more)), answer()]
    assert endpoint().complete(ASK).text == "Yes" and len(server.seen) == 2


def test_a_key_is_blotted_out_where_a_message_is_cut_off(server, endpoint, monkeypatch):
    model = endpoint()
    monkeypatch.setenv("OPENAI_API_KEY", HIDDEN["key"])
    server.script = [(404, {}, complaint("x" * 285 + f" {HIDDEN['key']}"))]
    with pytest.raises(ChatError, match="x …") as caught:
        model.complete(ASK)
    assert HIDDEN["key"][:8] not in str(caught.value)


def test_a_server_that_echoes_the_key_brings_it_into_no_answer(server, endpoint, monkeypatch):
    server.script = [answer(f"You sent Bearer {SECRET}.")]
    assert endpoint().complete(ASK).text == "You sent Bearer …."
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")  # what servers without keys are given; an ordinary word
    server.script = [answer("The set is EMPTY.")]
    assert endpoint().complete(ASK).text == "The set is EMPTY."


# ---------------------------------------------------------------- what an attempt may cost


class Watching:
    """A meter that notes what each attempt was taken to have used."""

    def __init__(self):
        self.most, self.used = [], []

    @contextlib.contextmanager
    def attempt(self, most):
        bill = Bill(most)
        self.most.append(most)
        try:
            yield bill
        finally:
            self.used.append(bill.used)


@pytest.mark.parametrize(
    ("failure", "billed"),
    [(429, False), (500, False), (503, False), (401, False), (502, True), (504, True), ("html", True),
     ("truncated", True), ("cut", True), ("drop", True), ("slow", True), ("untold", True)],
)  # fmt: skip
def test_every_attempt_that_may_be_billed_counts(server, endpoint, failure, billed):
    server.script = [Billing([failure], seconds=1.5)]
    # Only a slow answer is given up: on a busy machine half a second can pass before the server reads a request.
    model, meter = endpoint(max_retries=1, timeout=0.5 if failure == "slow" else 60, max_tokens=7), Watching()
    with contextlib.suppress(ChatError):
        model.complete(ASK, meter.attempt)
    attempts = 1 if failure in ("untold", 401) else 2
    assert meter.most == [most_tokens(ASK, 7, json.dumps(""))] * attempts
    assert len(server.seen) == attempts or failure == "slow"
    assert meter.used == (meter.most if billed else [Tokens()] * attempts)


def test_what_was_never_sent_costs_nothing_and_what_is_told_is_taken(server, endpoint):
    model, meter = Endpoint("m", base_url="http://127.0.0.1:9/v1", max_retries=1), Watching()
    with pytest.raises(UnavailableError):
        model.complete(ASK, meter.attempt)
    assert meter.used == [Tokens(), Tokens()]
    model = endpoint(schema=SCHEMA)
    refusal = (400, {}, {"error": {"message": "no response_format here"}})
    server.script = [lambda body: refusal if "response_format" in body else answer()]
    model.complete(ASK, meter.attempt)
    assert meter.used[2:] == [Tokens(), Tokens(100, 2)]
    assert meter.most[2].prompt > meter.most[3].prompt + len(json.dumps(SCHEMA))  # a schema is read too


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "Zürich 日本 🦓", "a " * 500])
def test_no_tokenizer_of_bytes_counts_more_than_the_most(text):
    from tiny import mistral_tokenizer

    tokenizer = mistral_tokenizer(["cats"])
    told = most_tokens([{"role": "user", "content": text}], 5)
    assert len(tokenizer(text)["input_ids"]) <= told.prompt and told.completion == 5
    assert told.prompt >= len(text.encode()) + 10
