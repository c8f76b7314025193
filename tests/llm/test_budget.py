"""The limit: held before each request, by hand, over threads, failures and ends of the process."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from chat_server import Saying
from hypothesis import given, settings
from hypothesis import strategies as st

from berdslib.errors import InputError
from berdslib.llm.budget import Budgeted, BudgetError
from berdslib.llm.chat import Reply, UnavailableError

PRICES = (30.0, 60.0)  # per million


def say(text):
    return [{"role": "user", "content": text}]


class Model:
    """Uses what it is told to use, in turn; an error is raised."""

    id, max_tokens = "model", 100

    def __init__(self, *uses):
        self.uses, self.asked = list(uses), 0

    def complete(self, messages):
        self.asked += 1
        used = self.uses.pop(0) if len(self.uses) > 1 else self.uses[0]
        if isinstance(used, Exception):
            raise used
        return Reply("Yes", (), "stop", *used)


def test_a_worked_example():
    # "user" and "hello": 9 bytes, with 16 marks and 64 to open with: at most 89 tokens to read and 100 to write, at a
    # dollar each 189.
    model = Model((50, 10))
    budgeted = Budgeted(model, prices=(1e6, 1e6), limit=400)
    assert budgeted.complete(say("hello")).text == "Yes" and budgeted.spent == 60
    assert budgeted.complete(say("hello")).text == "Yes" and budgeted.spent == 120
    for _ in range(2):  # 240 + 189 is more than 400, though 240 + 60 would not be
        budgeted.complete(say("hello"))
    with pytest.raises(
        BudgetError, match=r"can cost 189.0000, and of the limit of 400 240.0000 are spent or set aside"
    ):
        budgeted.complete(say("hello"))
    assert model.asked == 4 and budgeted.spent == 240 and budgeted.id == "model"


def test_requests_under_way_are_set_aside():
    class Waiting(Model):
        def complete(self, messages):
            inside.release()
            go.wait(5)
            return super().complete(messages)

    inside, go, model = threading.Semaphore(0), threading.Event(), Waiting((1, 1))
    budgeted = Budgeted(model, prices=(1e6, 1e6), limit=3 * 189)
    with ThreadPoolExecutor(4) as pool:
        under_way = [pool.submit(budgeted.complete, say("hello")) for _ in range(3)]
        for _ in under_way:
            inside.acquire()
        assert budgeted.spent == 3 * 189
        with pytest.raises(BudgetError, match=r"567.0000 are spent or set aside for requests under way"):
            budgeted.complete(say("hello"))
        go.set()
    assert [one.result().text for one in under_way] == ["Yes"] * 3 and budgeted.spent == 6
    assert budgeted.complete(say("hello")).text == "Yes"  # now there is room again


def test_a_server_that_counts_more_than_it_can_is_told_of_once(caplog):
    budgeted = Budgeted(Model((5000, 100)), prices=PRICES, limit=1)
    for _ in range(3):
        budgeted.complete(say("hello"))
    assert budgeted.spent == pytest.approx(3 * (5000 * 30 + 100 * 60) / 1e6)
    assert ["at most" in record.getMessage() for record in caplog.records] == [True]  # once, and not at each call


@pytest.mark.parametrize(
    "bad",
    [{"prices": (-1, 0)}, {"prices": (float("nan"), 0)}, {"limit": -1}, {"limit": float("inf")}],
)
def test_unusable_settings_are_refused(bad):
    with pytest.raises(InputError, match="prices and limit must be"):
        Budgeted(Model((1, 1)), **{"prices": PRICES, "limit": 1.0, **bad})
    with pytest.raises(InputError, match="saying does not say how long"):
        Budgeted(Saying("x"), prices=PRICES, limit=1)


# ---------------------------------------------------------------- the ledger


def test_a_ledger_carries_over_what_was_spent(tmp_path):
    path = tmp_path / "deep" / "spending.jsonl"
    first = Budgeted(Model((50, 10), UnavailableError("cut off")), prices=(1e6, 1e6), limit=1000, ledger=path)
    first.complete(say("hello"))
    with pytest.raises(UnavailableError):
        first.complete(say("hello"))
    assert first.spent == 60 + 189
    path.write_text(path.read_text() + '{"attempt": "cut o')  # killed before it was sent
    again = Budgeted(Model((50, 10)), prices=(1e6, 1e6), limit=1000, ledger=path)
    assert again.spent == 60 + 189
    again.complete(say("hello"))
    assert Budgeted(Model((1, 1)), prices=(1.0, 2.0), limit=1e4, ledger=path).spent == 60 + 189 + 60


def test_what_was_spent_stays_what_it_was_when_model_and_prices_change(tmp_path):
    path = tmp_path / "s.jsonl"
    dear = Budgeted(Model((50_000, 13_000)), prices=(30.0, 60.0), limit=30, ledger=path)
    for _ in range(10):  # 1.5 and 0.78 dollars each
        dear.complete(say("hello"))
    assert dear.spent == 22.8
    cheap = Model((1, 1))
    cheap.id = "cheap"
    with pytest.raises(BudgetError, match=r"next request to cheap .* of the limit of 22.8 22.8000 are spent"):
        Budgeted(cheap, prices=(0.15, 0.6), limit=22.8, ledger=path).complete(say("hello"))
    again = Budgeted(cheap, prices=(0.15, 0.6), limit=30, ledger=path)
    again.complete(say("hello"))
    assert again.spent == 22.80000075


def test_what_was_spent_at_unknown_prices_is_taken_at_those_of_now(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text('{"attempt": "of old", "prompt": 1, "completion": 1}\n')
    free = Budgeted(Model((50, 10)), prices=(0, 0), limit=1, ledger=path)
    free.complete(say("hello"))
    assert free.spent == 0
    assert Budgeted(Model((1, 1)), prices=(1e6, 2e6), limit=1e4, ledger=path).spent == 1 + 2 + 50 + 20


def test_no_cent_is_lost(tmp_path):
    path, limit = tmp_path / "s.jsonl", 0.3  # 0.1 + 0.1 + 0.1 is more than 0.3 in floating point
    budgeted = Budgeted(Model((89, 100)), prices=(0, 1000), limit=limit, ledger=path)
    for _ in range(3):
        budgeted.complete(say("hello"))
    assert budgeted.spent == 0.3
    with pytest.raises(BudgetError):
        budgeted.complete(say("hello"))
    assert Budgeted(Model((1, 1)), prices=(0, 1e-7), limit=1, ledger=path).spent == 0.3


def test_an_attempt_is_in_the_ledger_before_it_is_sent(tmp_path):
    class Looking(Model):
        def complete(self, messages):
            seen.extend(map(json.loads, path.read_text().splitlines()))
            return super().complete(messages)

    seen, path = [], tmp_path / "s.jsonl"
    Budgeted(Looking((50, 10)), prices=(1e6, 2e6), limit=1e4, ledger=path).complete(say("hello"))
    (row,) = seen
    told = {"attempt": row["attempt"], "model": "model", "prices": [1e6, 2e6], "prompt": 89, "completion": 100}
    assert row == {**told, "crc32": row["crc32"]}
    then = json.loads(path.read_text().splitlines()[1])
    assert then == {**row, "prompt": 50, "completion": 10, "crc32": then["crc32"]}


PRICED = '{"attempt": "a", "prompt": 7, "completion": 1, "prices": '


@pytest.mark.parametrize(
    "line",
    ["[]", "{}", "null", '{"attempt": "a", "prompt": "7", "completion": 1}', "[" * 100_000, "\xff",
     '{"attempt": "a", "prompt": -7, "completion": 1}', PRICED + "3}", PRICED + "null}", PRICED + '"12"}',
     PRICED + "[1]}", PRICED + "[1, -1]}", PRICED + "[1, NaN]}", PRICED + '["1", "2"]}', PRICED + "[1, 1e999]}",
     PRICED + f"[1, 1{'0' * 400}]}}"],
)  # fmt: skip
def test_a_hostile_ledger_is_named_by_file_and_line(tmp_path, line):
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"attempt": "a", "prompt": 1, "completion": 1}\n' + line.encode("latin-1") + b"\n")
    with pytest.raises(InputError, match=r"s.jsonl:2: not a line of a ledger"):
        Budgeted(Model((1, 1)), prices=PRICES, limit=1, ledger=path)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["told", "untold", "fails", "kill"]), min_size=1, max_size=40),
    st.integers(200, 4000),
    st.integers(1, 89),
    st.integers(0, 100),
)
def test_whatever_happens_the_limit_holds(tmp_path_factory, events, limit, prompt, completion):
    """The server bills what it likes up to the most; "kill" forgets everything that is not in the ledger."""
    path, billed = tmp_path_factory.mktemp("ledger") / "s.jsonl", 0

    class Server(Model):
        def complete(self, messages):
            nonlocal billed
            billed += prompt + completion
            if event in ("fails", "kill"):
                raise UnavailableError(event)
            return Reply("Yes", (), "stop", *((prompt, completion) if event == "told" else ()))

    def fresh():
        return Budgeted(Server((0, 0)), prices=(1e6, 1e6), limit=limit, ledger=path)

    budgeted = fresh()
    for event in events:
        try:
            budgeted.complete(say("hello"))
        except UnavailableError:
            budgeted = fresh() if event == "kill" else budgeted
        except BudgetError:
            assert budgeted.spent + 189 > limit  # it is not refused for nothing
    assert billed <= budgeted.spent <= limit
