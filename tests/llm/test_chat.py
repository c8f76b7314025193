"""The endpoint, against a local server that misbehaves."""

import base64
import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from chat_server import ASK, SECRET, Scheduled, answer, chat_server, endpoint_at

from berdslib.errors import InputError
from berdslib.llm.chat import ChatError, Endpoint, Reply, UnavailableError, UnreadError
from berdslib.llm.recorded import exchange_key
from berdslib.models.chat import make_chat


@pytest.fixture
def server():
    with chat_server() as web:
        yield web


@pytest.fixture
def endpoint(server, monkeypatch):
    return endpoint_at(server, monkeypatch)


def test_a_request_is_what_the_contract_says(server, endpoint):
    server.script = [answer("No", [("No", -0.1), ("Yes", -2.4)])]
    reply = endpoint().complete(ASK)
    assert reply == Reply("No", (("No", -0.1), ("Yes", -2.4)), "stop", 100, 2)
    path, headers, body, _ = server.seen[0]
    assert path == "/v1/chat/completions" and headers["Authorization"] == f"Bearer {SECRET}"
    assert body["messages"] == ASK and body["temperature"] == 0 and body["logprobs"] is True


def test_p10_the_papers_temperature_and_length_reach_a_server_and_the_id(server, endpoint):
    ids = set()
    for name, temperature, most in (("m", 0, 32), ("m?temperature=1.0&max_tokens=80", 1.0, 80)):
        chat = make_chat(name, max_tokens=32, base_url=f"http://127.0.0.1:{server.server_port}/v1")
        server.script = [answer("No")]
        chat.complete(ASK)
        sent = server.seen[-1][2]
        assert (sent["model"], sent["temperature"], sent["max_tokens"]) == ("m", temperature, most)
        ids.add(exchange_key(chat.id, ASK))
    assert len(ids) == 2  # recordings tell them apart


def test_an_answer_that_is_cut_off_or_empty_is_an_answer_and_says_so(server, endpoint):
    server.script = [Scheduled(["ok", "length", "empty"])]
    replies = [endpoint(max_tokens=9).complete(ASK) for _ in range(3)]
    assert [(r.text, r.finish, r.prompt_tokens, r.completion_tokens) for r in replies] == [
        ("WELL?", "stop", 12, 1),
        ("WELL?", "length", 12, 9),
        ("", "stop", 12, 1),
    ]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        *(({"base_url": url}, "http") for url in ("file:///", "http://me:pass-word@:x/v1",
          "ftp://me:pass-word@host", "http://me:pass-word@[/v1")),
    ],
)  # fmt: skip
def test_unusable_settings_are_refused_and_no_address_is_shown(bad, words):
    with pytest.raises(InputError, match=words) as caught:
        Endpoint("m", **bad)
    assert "pass-word" not in str(caught.value)


def test_a_key_with_a_line_break_is_not_shown_and_without_one_none_is_sent(server, endpoint, monkeypatch):
    model = endpoint()
    monkeypatch.setenv("OPENAI_API_KEY", f"{SECRET}\nX-Other: 1")
    with pytest.raises(ChatError) as caught:
        model.complete(ASK)
    assert SECRET not in str(caught.value) and not server.seen
    monkeypatch.delenv("OPENAI_API_KEY")
    assert model.complete(ASK).text == "Yes" and "Authorization" not in server.seen[0][1]


# ---------------------------------------------------------------- failures that pass


BROKEN = [
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
    b"nothing of the kind\r\n\r\n",
    b"HTTP/1.1 abc\r\n\r\n",
]
PASSING = [
    *(("raw", {}, [one]) for one in BROKEN),
    ("drop", {}, b""),
    (200, {}, b"<html>"),
    (200, {}, b'{"choices": ['),
]


@pytest.mark.parametrize("failure", [*PASSING, *((status, {}, {}) for status in (408, 409, 429, 500, 502, 503))])
def test_failures_that_may_pass_are_tried_again_up_to_an_end(server, endpoint, failure):
    server.script = [failure, failure, answer()]
    assert endpoint().complete(ASK).text == "Yes" and len(server.seen) == 3
    server.script = [failure]
    with pytest.raises(UnavailableError, match="http://127"):
        endpoint(max_retries=1).complete(ASK)
    assert len(server.seen) == 5


def test_where_nobody_listens_there_is_no_answer(endpoint):
    with pytest.raises(UnavailableError):
        endpoint(base_url="http://127.0.0.1:9/v1", max_retries=1).complete(ASK)


def test_an_answer_that_drips_is_left_at_the_deadline(server, endpoint):
    def drip():
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n"
        for _ in range(50):
            time.sleep(0.1)
            yield b"x"

    server.script = [lambda body: ("raw", {}, drip())]
    started = time.monotonic()
    with pytest.raises(UnavailableError, match="http://127"):
        endpoint(deadline=0.5).complete(ASK)
    assert time.monotonic() - started < 4  # and not the five seconds that it would drip


def test_a_slow_answer_is_waited_for_and_one_that_never_comes_is_not(server, endpoint):
    server.script = [Scheduled(["slow"], seconds=0.4)]
    assert endpoint(timeout=5).complete(ASK).text == "WELL?"
    with pytest.raises(UnavailableError, match="Timeout"):
        endpoint(timeout=0.1, max_retries=1).complete(ASK)


def test_it_waits_as_long_as_the_server_asks_unless_that_is_no_number(server, endpoint):
    server.script = [(429, {"Retry-After": "0.2"}, {}), (429, {"Retry-After": "0.2"}, {}), answer()]
    started = time.monotonic()
    assert endpoint().complete(ASK).text == "Yes" and time.monotonic() - started >= 0.4
    server.script = [(429, {"Retry-After": asked}, {}) for asked in ("", "nan", "-5", "Thu, 01 Jan 1970")] + [answer()]
    assert endpoint(deadline=5).complete(ASK).text == "Yes"


@pytest.mark.parametrize("seconds", ["3600", "inf"])
def test_a_wait_beyond_the_deadline_is_not_begun(server, endpoint, seconds):
    server.script = [(429, {"Retry-After": seconds}, {"error": {"message": "slow down"}})]
    with pytest.raises(UnavailableError, match=f"slow down.* {seconds} "):
        endpoint(deadline=5).complete(ASK)
    assert len(server.seen) == 1


# ---------------------------------------------------------------- what a server says is wrong


def complaint(message, **more):
    return {"error": {"message": message, **more}}


FLAGGED = complaint(f"flagged {SECRET}")


@pytest.mark.parametrize(
    ("status", "content", "kind", "said"),
    [
        # for what is in it
        (400, complaint(f"flagged {SECRET}", code="content_filter"), UnreadError, "status 400: flagged …$"),
        (200, complaint(f"flagged {SECRET}", code="content_filter"), UnreadError, "status 200: flagged …$"),
        (200, {"object": "error", "message": f"flagged {SECRET}", "code": 413}, UnreadError, "413: flagged …$"),
        (400, [complaint(f"too long {SECRET}", status="INVALID_ARGUMENT")], UnreadError, "400: too long …$"),
        (422, {"detail": [{"loc": ["body", "x"], "msg": f"odd {SECRET}"}]}, UnreadError, "422: body.x: odd …$"),
        (400, f"no {SECRET} here".encode(), UnreadError, "400: no … here$"),
        # whatever is in it
        (401, FLAGGED, ChatError, "401: flagged … .*OPENAI_API_KEY"),
        (403, complaint(f"no access for {SECRET}"), ChatError, "403: no access for … .*OPENAI_API_KEY"),
        (404, complaint(f"no such model {SECRET} here"), ChatError, "status 404: no such model … here"),
        (302, {}, ChatError, "status 302"),
        (400, complaint("pay", code="billing_hard_limit_reached"), ChatError, "status 400: pay"),
        (200, complaint("pay", type="insufficient_quota", code=429), ChatError, "status 429: pay"),
        (200, complaint("no", code=401), ChatError, "401: no .*OPENAI_API_KEY"),
        # nobody knows for what
        (200, complaint(f"lost {SECRET} it"), UnavailableError, "status 200: lost … it"),
        (200, {"error": f"lost {SECRET} it"}, UnavailableError, "status 200: lost … it"),
    ],
)
def test_what_is_refused_is_told_apart_and_sent_once(server, endpoint, status, content, kind, said):
    server.script = [(status, {}, content)]
    with pytest.raises(ChatError, match=said) as caught:
        endpoint().complete(ASK)
    assert type(caught.value) is kind and len(server.seen) == 1 and SECRET not in str(caught.value)


@pytest.mark.parametrize("more", [{"code": 503}, {"code": "429"}, {"code": "rate_limit_exceeded"}])
def test_an_error_in_place_of_an_answer_that_may_pass_is_tried_again(server, endpoint, more):
    server.script = [(200, {}, complaint("busy", **more)), answer()]
    assert endpoint().complete(ASK).text == "Yes" and len(server.seen) == 2


def refusing(refuses, status, content):
    """Return a step that refuses a request with a status and body as long as `refuses` holds for it."""
    return lambda body: (status, {}, content) if refuses(body) else answer("Yes", [("Yes", -0.1)])


def openai(message, param=None, code=None):
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def forbidden(field):
    """What a server in Python says that takes no other fields than its own (FastAPI with pydantic)."""
    return [{"type": "extra_forbidden", "loc": ["body", field], "msg": "Extra inputs are not permitted", "input": 1}]


def gemini(message):
    return [{"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}]


def llama_cpp(message, status=500):
    return {"error": {"code": status, "message": message, "type": "server_error"}}


def anthropic(message):
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


def vllm(message):
    return {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}


MISTRAL = {"object": "error", "type": "invalid_request_error", "code": None}
# What is refused, and how servers say it.
REFUSALS = {
    "max_tokens": [
        (400, openai("Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                     "'max_completion_tokens' instead.", "max_tokens", "unsupported_parameter")),
        (422, {"detail": forbidden("max_tokens")}),
        (500, {"error": "max_tokens is deprecated, send max_completion_tokens"}),
    ],
    "temperature": [
        (400, openai("Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value "
                     "is supported.", "temperature", "unsupported_value")),
        (400, gemini("* GenerateContentRequest.generation_config.temperature: unsupported")),
        (422, {**MISTRAL, "message": {"detail": forbidden("temperature")}}),
    ],
    "logprobs": [
        (403, openai("You are not allowed to request logprobs from this model")),
        (400, gemini('Invalid JSON payload received. Unknown name "logprobs": Cannot find field.')),
        (422, {**MISTRAL, "message": {"detail": [*forbidden("logprobs"), *forbidden("top_logprobs")]}}),
        (501, b"logprobs are not implemented"),
        (200, {"error": {"message": "logprobs not supported by this provider", "code": 400}}),
        (400, vllm("Requested sample logprobs of 20, which is greater than max allowed: 0")),
    ],
    "top_logprobs": [
        (400, openai("Invalid value for 'top_logprobs': integer above maximum value. Expected a value <= 5, but got 20 "
                     "instead.", "top_logprobs", "integer_above_max_value")),
        (400, vllm("Requested sample logprobs of 20, which is greater than max allowed: 5")),
        (422, {"detail": [{"loc": ["body", "top_logprobs"], "msg": "Input should be less than or equal to 5"}]}),
        (400, openai("top_logprobs must be between 0 and 5")),
    ],
    "response_format": [
        (400, openai("This response_format type is unavailable now")),
        (422, {**MISTRAL, "message": {"detail": forbidden("response_format")}}),
        (400, llama_cpp("failed to parse grammar", 400)),
        (400, {"error": {"message": "invalid JSON schema in format", "type": "api_error"}}),
        (501, openai("structured outputs are not implemented")),
    ],
    "system": [
        (400, vllm("Conversation roles must alternate user/assistant/user/assistant/...")),
        (422, {"error": "Template error: raise_exception: system role not supported", "error_type": "template_error"}),
        (500, llama_cpp("Only user and assistant roles are supported!")),
        (400, openai("Unsupported value: 'messages[0].role' does not support 'system' with this model.",
                     "messages[0].role", "unsupported_value")),
        (400, gemini("Developer instruction is not enabled for models/gemma-3-27b-it")),
        (400, anthropic('messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter')),
        (422, {"detail": [{"loc": ["body", "messages", 0, "role"], "msg": "Input should be 'user' or 'assistant'"}]}),
    ],
}  # fmt: skip
HOLDS = {
    "top_logprobs": lambda body: body.get("top_logprobs", 0) > 5,
    "system": lambda body: body["messages"][0]["role"] == "system",
}
TAUGHT = [{"role": "system", "content": "Say Yes."}, {"role": "user", "content": "Well?"}]


def sent_otherwise(what, body):
    """Say whether a request is the whole of what was meant, said so that a server that refuses `what` takes it."""
    expected = {"model": "some-model", "temperature": 0, "max_tokens": 8, "messages": TAUGHT}
    expected |= {"logprobs": True, "top_logprobs": 20}
    form = {"name": "answer", "schema": SCHEMA, "strict": False}
    expected["response_format"] = {"type": "json_schema", "json_schema": form}
    if what == "max_tokens":
        expected["max_completion_tokens"] = expected.pop("max_tokens")
    elif what == "top_logprobs":
        expected["top_logprobs"] = 5
    elif what == "system":
        expected["messages"] = [{"role": "user", "content": "Say Yes.\n\nWell?"}]
    else:
        gone = ("logprobs", "top_logprobs") if what == "logprobs" else (what,)
        expected = {name: value for name, value in expected.items() if name not in gone}
    return body == expected


@pytest.mark.parametrize(
    ("what", "status", "content"), [(what, *said) for what, listed in REFUSALS.items() for said in listed]
)
def test_what_a_server_refuses_is_asked_otherwise_from_then_on(server, endpoint, caplog, what, status, content):
    server.script = [refusing(HOLDS.get(what, lambda body: what in body), status, content)]
    first, second = endpoint(schema=SCHEMA), endpoint(schema=SCHEMA)
    replies = [first.complete(TAUGHT), first.complete(TAUGHT), second.complete(TAUGHT)]
    assert [reply.text for reply in replies] == ["Yes"] * 3 and len(server.seen) == 4
    assert all(sent_otherwise(what, body) for _, _, body, _ in server.seen[1:])
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1
    assert bool(first.differs) == (what not in ("max_tokens", "response_format"))


def test_several_refusals_in_a_row_are_found_out_once_by_all_who_ask_at_once(server, endpoint):
    def step(body):
        for what in ("max_tokens", "temperature", "logprobs", "system"):
            if HOLDS.get(what, lambda asked, field=what: field in asked)(body):
                time.sleep(0.02)
                return REFUSALS[what][0][0], {}, REFUSALS[what][0][1]
        return answer()

    server.script = [step]
    model = endpoint()
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: model.complete(TAUGHT), range(24)))
    assert {reply.text for reply in replies} == {"Yes"} and len(server.seen) == 4 + 24


def test_a_server_that_refuses_whatever_it_is_asked_is_asked_a_few_times(server, endpoint):
    words = "max_tokens, temperature, logprobs (at most 5), response_format and the system role are not supported"
    server.script = [(400, {}, openai(words))]
    with pytest.raises(UnreadError) as caught:
        endpoint(schema=SCHEMA).complete(TAUGHT)
    assert words in str(caught.value) and len(server.seen) <= 7
    asked = len(server.seen)
    with pytest.raises(UnreadError):
        endpoint(schema=SCHEMA).complete(TAUGHT)
    assert len(server.seen) == asked + 1


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (400, vllm("'max_tokens' or 'max_completion_tokens' is too large: 8. This model's maximum context length is "
                   "2048 tokens and your request has 2044 input tokens.")),
        (400, openai("Could not finish the message because max_tokens or model output limit was reached.")),
        (400, openai("the prompt 'the temperature of the system' was flagged", code="content_filter")),
        (403, openai("Your input was flagged by moderation: temperature")),
        (404, openai("The model `temperate` does not exist", code="model_not_found")),
    ],
)  # fmt: skip
def test_what_is_about_one_conversation_or_the_model_changes_nothing(server, endpoint, status, content):
    server.script = [(status, {}, content)]
    with pytest.raises(ChatError):
        endpoint().complete(TAUGHT)
    assert len(server.seen) == 1 and not endpoint().differs
    server.script = [answer("Yes", [("Yes", -0.1)])]
    endpoint().complete(TAUGHT)
    assert server.seen[-1][2] == server.seen[0][2]


def test_refusals_that_pass_are_waited_for_whatever_they_name(server, endpoint):
    server.script = [(429, {}, openai("rate limit: send a smaller max_tokens")), answer()]
    endpoint().complete(ASK)
    assert [body["max_tokens"] for _, _, body, _ in server.seen] == [8, 8]


def test_a_server_that_leaves_logprobs_out_without_a_word_is_named_once(server, endpoint, caplog):
    model = endpoint()
    assert not model.settled and not model.differs
    for _ in range(2):
        assert model.complete(ASK) == Reply("Yes", (), "stop", 100, 2)
    assert model.settled and model.differs and len(caplog.records) == 1
    assert endpoint().differs == model.differs and not endpoint(logprobs=False).differs


SCHEMA = {"type": "object", "additionalProperties": {"type": "string"}}


def test_a_schema_is_asked_for_and_is_part_of_the_id(server, endpoint):
    endpoint(schema=SCHEMA).complete(ASK)
    endpoint().complete(ASK)
    asked, plain = (seen[2] for seen in server.seen)
    assert asked["response_format"]["json_schema"]["schema"] == SCHEMA and "response_format" not in plain
    assert endpoint(schema=SCHEMA).id != endpoint().id


# ---------------------------------------------------------------- keys


HIDDEN = {"key": "very-private-value", "user": "someone", "password": "pass%2Fword", "query": "tok3n%21"}


@pytest.mark.parametrize("failure", [400, 401, 404, 500, "drop", 200])
@pytest.mark.parametrize("userinfo", ["", "someone:pass%2Fword@"])
def test_s9_no_error_and_no_log_shows_a_key(server, endpoint, monkeypatch, caplog, failure, userinfo):
    caplog.set_level("DEBUG")
    monkeypatch.setenv("OPENAI_API_KEY", HIDDEN["key"])
    login = base64.b64encode(b"someone:pass/word").decode()
    said = " ".join([*HIDDEN.values(), "pass/word", "tok3n!", f"token={HIDDEN['query']}", "and more", login])
    server.script = [(failure, {}, b"<html>" if failure == 200 else {"error": {"message": said}})]
    base = f"http://{userinfo}127.0.0.1:{server.server_port}/{HIDDEN['key']}/v1?token={HIDDEN['query']}"
    model = endpoint(base_url=base, max_retries=1)
    with pytest.raises(ChatError) as caught:
        model.complete(ASK)
    if failure in (400, 404, 500):
        assert "and more" in str(caught.value)
    path, headers, *_ = server.seen[0]
    assert path == f"/{HIDDEN['key']}/v1/chat/completions?token={HIDDEN['query']}"
    assert headers["Authorization"] == (f"Basic {login}" if userinfo else f"Bearer {HIDDEN['key']}")
    hidden = [HIDDEN["key"], HIDDEN["query"], "tok3n!"]
    hidden += ["someone", "pass%2Fword", "pass/word", login] if userinfo else []
    shown = "\n".join([str(caught.value), repr(caught.value.__cause__), caplog.text, model.id, repr(vars(model))])
    assert [secret for secret in hidden if secret in shown] == []


def test_the_id_holds_the_address_without_what_is_secret_in_it():
    plain = Endpoint("m", base_url="https://host:8443/v1").id
    assert "https://host:8443/v1" in plain
    assert Endpoint("m", base_url="https://me:pass-word@host:8443/v1/?key=abcdef").id == plain


def test_a_redirect_is_an_error_and_the_key_goes_nowhere_else(server, endpoint):
    """urllib would follow, and send the Authorization header to whatever address it is told."""
    server.script = [(302, {"Location": f"http://localhost:{server.server_port}/elsewhere"}, b"")]
    with pytest.raises(ChatError, match="302"):
        endpoint().complete(ASK)
    assert [path for path, *_ in server.seen] == ["/v1/chat/completions"]


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


# ---------------------------------------------------------------- hostile answers


def test_an_answer_too_large_to_be_one_is_not_read_to_its_end(server, endpoint, monkeypatch):
    monkeypatch.setattr("berdslib.llm.chat._LARGEST", 1000)
    server.script = [answer("Yes " * 400)]
    with pytest.raises(ChatError, match="1000"):
        endpoint().complete(ASK)
    assert len(server.seen) == 1


def said(**changes):
    choice = {"message": {"content": "Yes"}, **changes}
    return json.dumps({"choices": [choice]}).encode()


def top(token, logprob):
    return said(logprobs={"content": [{"top_logprobs": [{"token": token, "logprob": logprob}]}]})


@pytest.mark.parametrize(
    "content",
    [
        b"[]", b'{"choices": []}', b'{"choices": null}', b'{"choices": [{"message": null}]}',
        b"[" * 200_000, b'{"choices":' * 50_000,
        b'{"choices": {"a": 1}}', b'{"choices": [[]]}', b'"choices"', b"1" * 9999, b"\xff\xfe",
        said(message={"content": ["Yes"]}), said(message={"content": {"a": 1}}), said(message="Yes"),
        top("Yes", "much"), top(["Yes"], -1), top("Yes", 800), top("Yes", float("nan")), top("Yes", -(10**400)),
        said(logprobs={"content": [{"top_logprobs": 3}]}), said(logprobs=[1]), said(logprobs={"content": 5}),
        said().replace(b'"Yes"', b'"Yes", "x": ' + b"9" * 9999),
    ],
)  # fmt: skip
def test_s11_a_hostile_answer_is_the_librarys_own_error(server, endpoint, content):
    server.script = [(200, {"Content-Type": "application/json"}, content)]
    try:
        json.loads(content)
    except (ValueError, RecursionError):  # broken on its way, it may be
        attempts, kind = 2, UnavailableError
    else:  # whole, and paid for
        attempts, kind = 1, UnreadError
    with pytest.raises(kind):
        endpoint(max_retries=1).complete(ASK)
    assert len(server.seen) == attempts


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "No, or is it?"}]}
ANSWERS = [
    # what is answered, with what besides → text, and why it ended
    (answer([THOUGHT, {"type": "text", "text": "Yes"}]), "Yes", "stop"),
    (answer([{"type": "text", "text": "Y"}, {"type": "text", "text": "es"}]), "Yes", "stop"),
    (answer([{"type": "output_text", "text": "Yes"}, {"type": "reference", "reference_ids": [1]}]), "Yes", "stop"),
    (answer([{"type": "redacted_thinking", "data": "x"}, {"text": "Yes"}]), "Yes", "stop"),
    (answer("Yes", reasoning="No, or is it?", reasoning_details=[{"text": "No"}]), "Yes", "stop"),
    (answer(None, finish="length", reasoning_content="No, or"), "", "length"),
    (answer("", finish="max_tokens"), "", "length"),
    (answer(None), "", "stop"),
    (answer(None, refusal="I cannot help."), "I cannot help.", "refusal"),
    (answer([{"type": "refusal", "refusal": "I cannot help."}]), "I cannot help.", "refusal"),
    (answer(None, finish="tool_calls", tool_calls=[{"function": {"name": "judge"}}]), "", "tool_calls"),
    (answer("", finish="stop", function_call={"name": "judge"}), "", "tool_calls"),
    (answer("Yes", tool_calls=[{"function": {"name": "judge"}}]), "Yes", "stop"),
    (answer(None, finish="content_filter"), "", "content_filter"),
    (answer("", finish="content_filter: PROHIBITED_CONTENT"), "", "content_filter"),
    (answer("Ye", finish="sensitive"), "Ye", "content_filter"),
]


@pytest.mark.parametrize(("said", "text", "finish"), ANSWERS)
def test_answers_as_servers_send_them_are_read_or_told_apart(server, endpoint, said, text, finish):
    server.script = [said]
    assert endpoint(logprobs=False).complete(ASK) == Reply(text, (), finish, 100, 2) and len(server.seen) == 1


@pytest.mark.parametrize("logprobs", [None, {}, {"content": None}, {"content": []}, {"content": [{"token": "Yes"}]},
                                      {"content": [{"token": "Yes", "logprob": -1, "top_logprobs": None}]},
                                      {"tokens": ["Yes"], "token_logprobs": [-1]}])  # fmt: skip
def test_log_probabilities_that_are_not_there_spoil_no_answer(server, endpoint, logprobs):
    server.script = [(200, {}, said(logprobs=logprobs))]
    assert endpoint().complete(ASK) == Reply("Yes")


@pytest.mark.parametrize(
    "usage",
    ["null", "[]", "7", '{"prompt_tokens": null}', '{"prompt_tokens": "many", "completion_tokens": -3}',
     '{"prompt_tokens": 1e999, "completion_tokens": [1]}', '{"prompt_tokens": 1' + "0" * 400 + "}"],
)  # fmt: skip
def test_s11_counts_of_tokens_never_spoil_an_answer(server, endpoint, usage):
    content = f'{{"choices": [{{"message": {{"content": "Yes"}}}}], "usage": {usage}}}'
    server.script = [(200, {}, content.encode())]
    assert endpoint().complete(ASK) == Reply("Yes")
