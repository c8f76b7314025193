"""A judge without echo: what is struck, what stays, and what is asked of the judge and kept of its answers."""

import numpy as np
import pytest
from chat_server import pair
from hypothesis import given
from hypothesis import strategies as st

from berdslib.data.records import Passage
from berdslib.errors import InputError
from berdslib.judging.base import EachByItself, Pair, contains_perspective, short_name
from berdslib.judging.baselines import Overlap
from berdslib.judging.echo import Echo, without_echo
from berdslib.judging.registry import check_judge, make_judge
from berdslib.judging.store import VerdictStore, judge_pairs, verdicts_of

P = "Public zoos should close their doors"
HONEST = (
    "Trams are cheap to run, quiet, clean, and loved by nearly everybody who lives in the streets of the town. "
    "A keeper spends the day indoors, in the cold. Nobody asked the animals."
)


def left(text, perspective=P, title=""):
    return without_echo(Pair("q", 0, Passage("d", text, title), perspective)).passage


@pytest.mark.parametrize(
    "text",
    [
        f"{P}. {HONEST}",
        f"{P} {HONEST}",
        f"{HONEST} {P}",
        f"Public zoos.\nShould close; their doors! {HONEST}",
        f"{P.upper()}!! {HONEST}",
        f"{P}. {P}. {P}. {HONEST}",
        f"It is false that {P}. {HONEST}",
        f"{HONEST}\nTheir public doors zoos close should!",
        "".join(f"{char}\u200b" for char in P) + f". {HONEST}",
        P.translate({code: code + 0xFEE0 for code in range(ord("A"), ord("z") + 1)}) + f". {HONEST}",
    ],
)
def test_a_copy_is_struck_and_the_rest_stays(text):
    assert left(text).text == HONEST


def test_a_label_is_struck_where_it_stands_alone_or_again_and_again():
    text = "The movie. It was long, and everybody at the fair liked The Movie."
    assert left(text, "The Movie").text == text.partition(". ")[2]
    assert left("The Movie The Movie the movie Nobody ate.", "The Movie").text == "Nobody ate."
    assert left("NASCAR", "NASCAR", title="NASCAR!") == Passage("d", "")


def test_a_copy_in_a_long_sentence_is_cut_out_of_it():
    long = "After the war the city council heard eleven experts on traffic, water and schools, and wrote that"
    assert left(f"{long} {P}, and went home. {HONEST}").text == f"{long} and went home. {HONEST}"
    assert left(HONEST, title=f"It is false that {P}") == Passage("d", HONEST)


@pytest.mark.parametrize(
    ("text", "perspective"),
    [
        (f"Zoos  should\tstay open;  their doors are public.\n{HONEST}", P),  # kept as it is, blanks too
        ("The movie was long. I liked The Movie.", "The Movie"),  # a label
        ("We saw that zoos should closely follow trams.", "Zoos should close"),
        ("It is so that it is.", "To be or not to be"),  # no word that carries meaning
        ("", P),
    ],
)
def test_what_is_no_echo_stays_as_it_is(text, perspective):
    assert left(text, perspective, title="Zoos ").text == text


@pytest.mark.parametrize(
    ("before", "perspective"), [("我认为", "动物园应该关闭"), ("Sie sagt: ", "Jede Straße bleibt offen")]
)
def test_a_copy_is_found_in_other_scripts(before, perspective):
    copied = Passage("d", f"{before}{perspective}。电车很便宜。")
    kept = without_echo(Pair("q", 0, copied, perspective)).passage
    assert contains_perspective(copied, perspective) and not contains_perspective(kept, perspective)
    assert "电车很便宜" in kept.text


@given(
    st.lists(
        st.sampled_from([*P.split(), P, P.lower(), "trams", "and", ". ", ", ", "_", "(", "\n", "not"]), max_size=30
    )
)
def test_no_passage_keeps_a_copy_however_it_is_put_together(parts):
    """Also one that stood around another: Public zoos (public zoos should close their doors) should close …"""
    passage = left(" ".join(parts))
    assert not contains_perspective(passage, P)
    assert left(passage.text) == passage


class Counting:
    id, threshold = "counting", 0.5

    def __init__(self, judge):
        self.judge, self.read = judge, []

    def p_yes(self, pairs):
        self.read += [one.passage.text for one in pairs]
        return self.judge.p_yes(pairs)


def test_the_judge_reads_what_is_left_and_its_own_verdicts_are_used(tmp_path):
    judge = Counting(Overlap())
    pairs = [Pair("q", 0, Passage(str(i), text), P) for i, text in enumerate((HONEST, f"{P}. {HONEST}", P))]
    store = VerdictStore(tmp_path / "verdicts.sqlite")
    plain, _ = judge_pairs(judge, pairs, store)
    p_yes, judged = judge_pairs(Echo(judge), pairs, store)
    assert judge.read == [HONEST, f"{P}. {HONEST}", P] and judged == 0  # the first was all that is left of the second
    assert plain[2] == 1.0 and p_yes.tolist() == [plain[0], plain[0], 0.0]
    assert Echo(judge).p_yes(pairs).tolist() == p_yes.tolist()
    verdicts = verdicts_of(pairs, p_yes, Echo(judge))
    assert set(verdicts["judge"]) == {Echo(judge).id} != {judge.id} and not verdicts["supports"].any()


def test_a_pair_that_the_judge_cannot_read_is_unread_without_its_echo_too():
    class Unread(EachByItself):
        id, threshold = "unread", 0.5

        def p_yes_each(self, pairs):
            return np.full(len(pairs), np.nan), None

    p_yes, _ = judge_pairs(Echo(Unread()), [pair(HONEST, P), pair(P, P)])
    assert np.isnan(p_yes[0]) and p_yes[1] == 0.0


def test_a_name_holds_a_whole_other_name(monkeypatch):
    overlap = make_judge("echo:overlap", title_position="after")
    assert overlap.judge.id == Overlap(title_position="after").id and overlap.threshold == overlap.judge.threshold
    committee = make_judge("echo:overlap+random")
    assert [short_name(judge.id) for judge in committee.judges] == ["echo1:overlap", "random"]
    monkeypatch.setenv("BERDS_CHAT_URL", "http://127.0.0.1:9/v1")
    assert short_name(make_judge("echo:chat:org/m@short").id) == "echo1:chat:org/m"
    check_judge("echo:causal:m+adapter:a+4bit@short+overlap")
    for wrong in ("echo:", "echo:overlapp", "echo:causal:m@nothing", "echo:echo:nothing"):
        with pytest.raises(InputError):
            check_judge(wrong)
        with pytest.raises(InputError):
            make_judge(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["similarity", "laptop"])
def test_copies_of_the_perspective_no_longer_make_a_yes(name):
    passage = "Penguins eat fish and krill, which they catch while they swim below the ice."
    forms = [passage, f"{P}. {P}. {P}. {passage}", f"{P} {passage}", P]
    pairs = [Pair("q", 0, Passage("d", text), P) for text in forms]
    plain, struck = make_judge(name), make_judge(f"echo:{name}")
    assert (judge_pairs(plain, pairs)[0] >= plain.threshold).tolist()[0::3] == [False, True]
    assert not (judge_pairs(struck, pairs)[0] >= struck.threshold).any()
