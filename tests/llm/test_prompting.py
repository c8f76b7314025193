"""Wordings: our own files, and those that are taken in from a copy."""

import pytest

from berdslib.errors import InputError, MissingDataError
from berdslib.judging.chat import Chat
from berdslib.llm.prompting import PUBLISHED, TASKS, Prompt, import_prompt, load_prompt, published_path, wordings

NEEDS = TASKS["perspective_detection"]
CHAT = """<|im_start|>system
Say one word. <|im_end|>
<|im_start|>user
Text: [DOC] [17] [sic]
Claim: [Statement]
Right? <|im_end|>
<|im_start|>assistant
"""
ONE_SHOT = CHAT.replace(
    "<|im_start|>user",
    "<|im_start|>user\nText: Ferries {sail} [1].\nClaim: They fly.\nRight?<|im_end|>\n"
    "<|im_start|>assistant\nNo<|im_end|>\n<|im_start|>user",
)


def imported(tmp_path, text, task="perspective_detection", **options):
    path = tmp_path / "theirs.txt"
    path.write_text(text, encoding="utf-8")
    import_prompt(task, path, TASKS[task], **options)
    return load_prompt(task, options.get("wording", "published"), TASKS[task])


def test_instructions_for_chat_models_come_in_parts(user_cache, tmp_path):
    prompt = imported(tmp_path, CHAT)
    assert prompt == Prompt(
        "perspective_detection/published", "Say one word.", "Text: {document} [17] [sic]\nClaim: {statement}\nRight?"
    )
    turns = prompt.messages(document="Cats.", statement="Dogs.")
    assert [t["role"] for t in turns] == ["system", "user"]
    assert turns[1]["content"] == "Text: Cats. [17] [sic]\nClaim: Dogs.\nRight?"


def test_an_example_is_a_turn_of_its_own(user_cache, tmp_path):
    prompt = imported(tmp_path, ONE_SHOT, wording="published-one-shot")
    assert prompt.example == ("Text: Ferries {sail} [1].\nClaim: They fly.\nRight?", "No")
    turns = prompt.messages(document="Cats.", statement="Dogs.")
    assert [t["role"] for t in turns] == ["system", "user", "assistant", "user"]
    plain = imported(tmp_path, CHAT)
    assert plain.user == prompt.user and plain.hash != prompt.hash
    assert published_path("perspective_detection", "published-one-shot").name == "perspective_detection-one-shot.txt"


def test_the_judges_show_a_wordings_own_example(user_cache, tmp_path):
    from tiny import mistral_tokenizer

    from berdslib.data.records import Passage
    from berdslib.judging.base import Pair
    from berdslib.judging.yesno import YesNoJudge

    prompt = imported(tmp_path, ONE_SHOT, wording="published-one-shot")
    pair = Pair("q", 0, Passage("d", "Cats."), "Dogs.")
    assert [t["role"] for t in Chat(Silent(), prompt=prompt).messages(pair)] == ["system", "user", "assistant", "user"]
    tokenizer = mistral_tokenizer(["Yes No " * 50], words=["Yes", "No"])
    for shots in (0, 1):
        text = tokenizer.decode(YesNoJudge(tokenizer, prompt=prompt, shots=shots).token_ids(pair))
        assert text.count("They fly.") == 1 and "Ferry" not in text
        assert text.index("They fly.") < text.index("No") < text.index("Cats.")


class Silent:
    id = "silent"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Is it so?", r"theirs.txt: .*lacks the placeholder \{document\}; write it where that text goes"),
        ("[Document]", r"lacks the placeholder \{statement\}"),
        ("[Document] {statement} {stance}", r"has a placeholder \{stance\}, and nothing is put in"),
        (CHAT.replace("system", "assistant"), r"turns are assistant, user"),
        (CHAT + "Yes<|im_end|>", r"turns are user, assistant;"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_name(user_cache, tmp_path, text, words):
    with pytest.raises(InputError, match=words):
        imported(tmp_path, text)
    with pytest.raises(MissingDataError):
        load_prompt("perspective_detection", "published")


def test_wordings_are_named(user_cache):
    assert wordings("perspective_generation") == ("ours", "published")
    assert "published-no-chat" in wordings("perspective_detection")
    assert wordings("essay_writing") == ("ours", "published")
    with pytest.raises(InputError, match="unknown wording 'theirs'"):
        load_prompt("perspective_detection", "theirs")
    with pytest.raises(InputError, match="unknown published wording 'ours'"):
        published_path("perspective_detection", "ours")
    for use in (load_prompt, published_path, lambda task, wording: wordings(task)):
        with pytest.raises(InputError, match=r"unknown task 'perspective_detecton'.*Known: essay_writing, hypo"):
            use("perspective_detecton", "published")
    with pytest.raises(MissingDataError, match="berds prompts fetch perspective_detection;"):
        load_prompt("perspective_detection", "published")
    with pytest.raises(MissingDataError, match="berds prompts fetch essay_writing --url URL;"):
        load_prompt("essay_writing", "published")


def test_where_the_authors_keep_their_wordings_is_on_record():
    files = [one for task in PUBLISHED.values() for one in task.values()]
    assert len(files) == len(set(files)) == 5 and set(PUBLISHED) <= set(TASKS)
    for one in files:
        assert one.url.startswith("https://raw.githubusercontent.com/timchen0618/berds/") and one.bytes > 100
        assert len(one.sha256) == 64 and set(one.sha256) <= set("0123456789abcdef")


def test_a_wording_that_cannot_be_written_whole_leaves_the_old_one(user_cache, tmp_path, monkeypatch):
    before = imported(tmp_path, CHAT)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk, pytest.raises(InputError, match="cannot be written"):
        disk.setattr("os.replace", full)
        imported(tmp_path, CHAT.replace("?", "??"))
    assert load_prompt("perspective_detection", "published", TASKS["perspective_detection"]) == before
