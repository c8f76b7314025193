"""The command `berds`: the main job from a shell, with the same words as in Python."""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from berdslib import __version__
from berdslib.errors import BerdsError, InputError
from berdslib.llm.prompting import TASKS


class _Group(click.Group):
    """Prints what the user can put right as one line, and nothing as a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BerdsError as error:
            click.echo(f"berds: {error}", err=True)
            ctx.exit(1)
        except BrokenPipeError:
            raise  # `berds … | head`: click ends it quietly
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            click.echo(f"berds: {where}{error.strerror or error}", err=True)
            ctx.exit(1)
        except sqlite3.Error as error:
            click.echo(f"berds: the verdict store cannot be used: {error}", err=True)
            ctx.exit(1)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="berds")
@click.option("-v", "--verbose", is_flag=True, help="Say what is being done.")
def main(verbose: bool) -> None:
    """Which perspectives does a retriever show, and which does it hide?

    A usual round: `berds retrieve`, `berds judge`, `berds evaluate`; or all three with `berds experiment`.
    Data sets are named (`berds data list`) or given as files.
    """
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)


# ---------------------------------------------------------------- shared options and helpers


def _options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def wrap(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return wrap


_SPLIT = click.option(
    "--split", type=click.Choice(["dev", "test", "all"]), help="[dev where a data set has splits, else all]"
)
_QUESTIONS = _options(
    click.option("-q", "--questions", required=True, help="Data set names, comma-separated, or a file."),
    _SPLIT,
    click.option("--limit", default=0, help="Only the first N questions of each set; 0 for all.", show_default=True),
)
_CORPUS = click.option("-c", "--corpus", help="Data set name or file; default: that of the questions.")
_JUDGE = _options(
    click.option(
        "-j",
        "--judge",
        default="gold",
        show_default=True,
        help="gold, random, overlap, similarity, mistral-berds, causal:MODEL, nli:MODEL or chat:MODEL.",
    ),
    click.option(
        "--title-position",
        type=click.Choice(["before", "after", "none"]),
        help="Where the judge reads a passage's title. [the judge's own default]",
    ),
)
_OPINION = click.option(
    "--opinion",
    default="laptop",
    show_default=True,
    help="Judge that xquad, pm2 and coverage ask about generated perspectives: those that the chain expands by, else "
    "recorded ones, else some made by rule.",
)
_DEPTH = click.option(
    "--depth",
    default=100,
    show_default=True,
    type=click.IntRange(min=1),
    help="Candidates that a cross-encoder or a diversifier chooses from.",
)
_STORE = click.option("--store", type=click.Path(dir_okay=False, path_type=Path), help="Verdict store. [user cache]")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_MEASURES = click.option(
    "-m", "--measures", default="Precision@5,MRecall@5", show_default=True, help="Comma-separated, such as MRecall@10."
)
_POSITIVE = click.IntRange(min=1)
_FOLDER = click.Path(file_okay=False, path_type=Path)


def _names(text: str) -> list[str]:
    """Split at commas; a file whose name holds one is one name."""
    return [text] if Path(text).is_file() else [name.strip() for name in text.split(",") if name.strip()]


def _load_questions(names: str, split: str | None, limit: int, *, need_perspectives: bool = False) -> list[Any]:
    from berdslib.data.records import check_questions
    from berdslib.data.registry import load_questions
    from berdslib.data.textio import naming

    found = [q for name in _names(names) for q in load_questions(name, split, limit)]
    return list(naming(names, lambda q: check_questions(q, need_perspectives=need_perspectives), found))


def _load_passages(corpus: str | None, questions: str) -> Sequence[Any]:
    from berdslib.data.registry import load_passages

    asked = _names(questions)
    if corpus is None and (len(asked) != 1 or Path(asked[0]).exists()):
        raise InputError("say with --corpus where to search: the questions are a file or of several data sets")
    return load_passages(corpus or asked[0])


def _load_systems(
    names: Sequence[str],
    corpus: str | None,
    questions: str,
    split: str | None,
    asked: Sequence[Any],
    opinion: str,
    depth: int,
    store: Any = None,
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Return the corpus and the systems over it, their names having been checked before it is read."""
    from berdslib.retrieval.pipeline import system_parts
    from berdslib.study.systems import known_expansions, named_systems

    expands = any(parts for _, parts in map(system_parts, names))
    passages = _load_passages(corpus, questions)
    expansions = known_expansions(_names(questions), split, asked) if expands else {}
    return passages, named_systems(names, passages, expansions, opinion=opinion, store=store, depth=depth)


def _load_gold(questions: str, otherwise: str) -> Any:
    import pandas as pd

    from berdslib.data.registry import dataset, load_gold, names

    able = [name for name in names() if "load_gold" in dataset(name).loaders]
    for name in _names(questions):
        if name not in able:
            raise InputError(f"{name!r} has no gold verdicts (these have: {', '.join(able)}); {otherwise}")
    return pd.concat([load_gold(name) for name in _names(questions)], ignore_index=True)


def _gold(judge: str, questions: str) -> Any:
    return _load_gold(questions, "name another judge, such as -j similarity") if judge == "gold" else None


def _load_run(path: str, asked: Sequence[Any]) -> Any:
    from berdslib.data.trec import read_trec_run

    run = read_trec_run(path)
    if not set(run["qid"]) & {q.qid for q in asked}:
        problem = (
            f"answers none of the questions: they are named as {asked[0].qid!r}, in the run {run['qid'].iloc[0]!r}"
        )
        raise InputError(problem, path=path, field="qid")
    return run


def _measures(text: str) -> list[Any]:
    from berdslib.evaluation.measures import parse_measure

    wanted = [parse_measure(part) for part in _split_outside_brackets(text)]
    if not wanted:
        raise InputError("at least one measure is needed, such as MRecall@5", field="measures")
    return wanted


def _split_outside_brackets(text: str) -> list[str]:
    """Split at commas that are not inside brackets: alpha_nDCG(alpha=0.5,rel=1)@5 is one measure."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [p.strip() for p in parts if p.strip()]


def _done(summary: dict[str, Any], sentence: str, as_json: bool) -> None:
    """Say what was done: a sentence for a reader on the error stream, or JSON for a program on the output."""
    if as_json:
        click.echo(json.dumps(summary, indent=1, default=str))
    else:
        click.echo(sentence, err=True)


def _print_frame(frame: Any, as_json: bool) -> None:
    if as_json:
        click.echo(frame.to_json(orient="records", indent=1))
    else:
        click.echo(frame.to_string(index=False, float_format=lambda x: f"{x:.4f}"))


# ---------------------------------------------------------------- the main job


@main.command()
@_QUESTIONS
@_CORPUS
@click.option(
    "-r",
    "--retriever",
    default="bm25",
    show_default=True,
    help="Retriever or chain: bm25, hf:org/model, minilm+mmr:0.9, minilm+expand:recorded+coverage:0.5.",
)
@_OPINION
@_DEPTH
@click.option("-k", default=100, show_default=True, type=_POSITIVE, help="Passages per question.")
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False), help="TREC run file to write (.gz too)."
)
@_JSON
def retrieve(
    questions: str,
    split: str | None,
    limit: int,
    corpus: str | None,
    retriever: str,
    opinion: str,
    depth: int,
    k: int,
    output: str,
    as_json: bool,
) -> None:
    """Rank passages for questions and write a TREC run."""
    from berdslib.data.trec import write_trec_run

    asked = _load_questions(questions, split, limit)
    retriever = retriever.strip()
    passages, systems = _load_systems([retriever], corpus, questions, split, asked, opinion, depth)
    run = systems[retriever].search(asked, k)
    write_trec_run(output, run, tag=retriever)
    summary = {
        "output": output,
        "retriever": retriever,
        "questions": len(asked),
        "answered": run["qid"].nunique(),
        "passages_listed": len(run),
        "corpus_size": len(passages),
    }
    sentence = (
        f"{len(run)} passages for {summary['answered']} of {len(asked)} questions, from {len(passages)} → {output}"
    )
    _done(summary, sentence, as_json)


@main.command()
@_QUESTIONS
@_CORPUS
@click.option("--run", "run_path", required=True, type=click.Path(), help="TREC run file.")
@_JUDGE
@click.option("-k", default=5, show_default=True, type=_POSITIVE, help="How deep to judge.")
@_STORE
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False),
    help="Verdicts to write: .tsv, .csv or .qrels (.gz too).",
)
@_JSON
def judge(
    questions: str,
    split: str | None,
    limit: int,
    corpus: str | None,
    run_path: str,
    judge: str,
    title_position: str | None,
    k: int,
    store: Path | None,
    output: str,
    as_json: bool,
) -> None:
    """Judge the top k of a run against every perspective of its question."""
    from berdslib.data.textio import naming
    from berdslib.data.trec import write_trec_qrels, write_verdicts
    from berdslib.judging.judges import make_judge, pairs_of
    from berdslib.judging.store import VerdictStore, judge_pairs, verdicts_of

    asked = _load_questions(questions, split, limit, need_perspectives=True)
    run = _load_run(run_path, asked)
    passages = {p.docno: p for p in _load_passages(corpus, questions)}
    chosen = make_judge(judge, _gold(judge, questions), title_position)
    pairs = naming(run_path, lambda r: pairs_of(r, asked, passages, k), run)
    p_yes, new = judge_pairs(chosen, pairs, VerdictStore(store))
    verdicts = verdicts_of(pairs, p_yes, chosen)
    (write_trec_qrels if output.removesuffix(".gz").endswith(".qrels") else write_verdicts)(output, verdicts)
    yes, known_before = int(verdicts["supports"].sum()), len(pairs) - new
    summary = {"output": output, "judge": chosen.id, "pairs": len(pairs), "judged_now": new, "yes": yes}
    source = "looked up" if judge == "gold" else f"{new} judged now, {known_before} known before"
    _done(summary, f"{len(pairs)} pairs by {chosen.id}: {source}; {yes} yes → {output}", as_json)


@main.command()
@click.argument("berds_jsonl", required=False, type=click.Path())
@click.option("--predictions", default="", help="Field of the recorded verdicts. [found in the file]")
@click.option("-q", "--questions", help="Data set names or a file (with --run and --verdicts).")
@_SPLIT
@click.option("--run", "run_path", type=click.Path(), help="TREC run file.")
@click.option(
    "--verdicts", "verdicts_path", type=click.Path(), help="Verdicts (.tsv, .csv, .jsonl) or diversity qrels."
)
@_MEASURES
@click.option("--per-question", is_flag=True, help="Print one row per question instead of means.")
@_JSON
def evaluate(
    berds_jsonl: str | None,
    predictions: str,
    questions: str | None,
    split: str | None,
    run_path: str | None,
    verdicts_path: str | None,
    measures: str,
    per_question: bool,
    as_json: bool,
) -> None:
    r"""Score a run, or an official BeRDS JSONL with recorded predictions, without any model.

    \b
    berds evaluate outputs.jsonl                       (mistral-preds, gpt4-preds, … as found)
    berds evaluate -q sample --run run.trec --verdicts verdicts.tsv
    """
    import pandas as pd

    from berdslib.data.textio import naming
    from berdslib.data.trec import read_verdicts
    from berdslib.evaluation.measures import evaluate as score
    from berdslib.evaluation.measures import unjudged_share
    from berdslib.study.experiment import summarise

    wanted = _measures(measures)
    if (berds_jsonl is None) == (run_path is None):
        raise click.UsageError("give either a BeRDS JSONL file, or --run with --questions")
    if berds_jsonl is not None and (questions or verdicts_path or split):
        raise click.UsageError("a BeRDS JSONL file brings its own questions and verdicts")
    if berds_jsonl is not None:
        asked, run, tables = _recorded(berds_jsonl, predictions)
    else:
        if questions is None:
            raise click.UsageError("--run needs --questions")
        asked = _load_questions(questions, split, 0, need_perspectives=True)
        run = _load_run(str(run_path), asked)
        missing = "give verdicts with --verdicts FILE"
        gold = read_verdicts(verdicts_path) if verdicts_path else _load_gold(questions, missing)
        tables = {verdicts_path or "gold": gold}
    scores = {name: naming(name, lambda t: score(run, t, asked, wanted), table) for name, table in tables.items()}
    depth = max([m["cutoff"] for m in wanted if "cutoff" in m.params], default=5)
    for name, table in tables.items():
        share = unjudged_share(run, table, depth)
        if share > 0 and name != "gold":
            click.echo(f"berds: {share:.1%} of the top {depth} have no verdict in {name}; they count as no", err=True)
    if per_question:
        frames = [frame.reset_index().assign(verdicts=name) for name, frame in scores.items()]
        _print_frame(pd.concat(frames, ignore_index=True), as_json)
        return
    table = summarise(scores, asked).rename(columns={"system": "verdicts"})
    _print_frame(table.drop(columns=["difference", "p_value"]), as_json)


def _recorded(path: str, predictions: str) -> tuple[list[Any], Any, dict[str, Any]]:
    """Read an official file once per recorded judge."""
    from berdslib.data.formats import prediction_fields, read_berds

    fields = [predictions] if predictions else prediction_fields(path)
    if not fields:
        raise InputError('no recorded predictions (fields ending in "-preds") in the first row', path=path)
    tables = {}
    for field in fields:
        asked, _, run, verdicts = read_berds(path, field)
        tables[field] = verdicts
    return asked, run, tables


@main.command()
@_QUESTIONS
@_CORPUS
@click.option(
    "-r",
    "--retrievers",
    default="bm25,minilm",
    show_default=True,
    help="Comma-separated; chains such as minilm+mmr:0.9, bm25+expand:rule or minilm+expand:recorded+coverage:0.5 too.",
)
@_OPINION
@_DEPTH
@_JUDGE
@_MEASURES
@click.option("--baseline", help="Retriever to test the others against. [the first]")
@_STORE
@click.option("-o", "--output", type=_FOLDER, help="Folder for runs, verdicts, table.")
@_JSON
def experiment(
    questions: str,
    split: str | None,
    limit: int,
    corpus: str | None,
    retrievers: str,
    opinion: str,
    depth: int,
    judge: str,
    title_position: str | None,
    measures: str,
    baseline: str | None,
    store: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Retrieve, judge and score: systems x measures, with intervals and paired tests."""
    from berdslib.data.trec import write_trec_run, write_verdicts
    from berdslib.judging.judges import make_judge
    from berdslib.judging.store import VerdictStore
    from berdslib.study.experiment import experiment as run_experiment
    from berdslib.study.systems import goes_by_opinion

    names = list(dict.fromkeys(name.strip() for name in retrievers.split(",")))
    wanted = _measures(measures)
    asked = _load_questions(questions, split, limit, need_perspectives=True)
    chosen = make_judge(judge, _gold(judge, questions), title_position)
    passages, systems = _load_systems(names, corpus, questions, split, asked, opinion, depth, VerdictStore(store))
    if judge == opinion and any(map(goes_by_opinion, names)):
        click.echo("the judge that scores also re-ranks: what it gains is praise of itself, and no finding", err=True)
    result = run_experiment(
        systems,
        asked,
        wanted,
        judge=chosen,
        passages=passages,
        store=VerdictStore(store),
        baseline=baseline or names[0],
    )
    if output:
        for name in names:
            stem = name.replace(":", "-").replace("/", "-")
            write_trec_run(output / f"{stem}.trec", result.runs[name], tag=stem)
        write_verdicts(output / "verdicts.tsv", result.verdicts)
        result.table.to_csv(output / "scores.csv", index=False)
    click.echo(f"{len(asked)} questions, {len(passages)} passages, judge {chosen.id}", err=True)
    _print_frame(result.table, as_json)


@main.command("judge-eval")
@click.option(
    "--data", "path", required=True, help="Labelled pairs: a table of question, document, perspective, label."
)
@click.option("-j", "--judges", default="random,overlap,similarity,laptop", show_default=True, help="Comma-separated.")
@_STORE
@_JSON
def judge_eval(path: str, judges: str, store: Path | None, as_json: bool) -> None:
    """Measure judges against people's labels; intervals are clustered by question. BeRDS Table 4.

    For measuring only: choose judges, prompts and thresholds on other data.
    """
    import numpy as np
    import pandas as pd

    from berdslib.data.pairs import read_labelled_pairs
    from berdslib.data.records import Passage
    from berdslib.judging.agreement import agreement_report
    from berdslib.judging.judges import Pair, make_judge
    from berdslib.judging.store import VerdictStore, judge_pairs

    rows = read_labelled_pairs(path)
    labels, clusters = np.array([r.label for r in rows]), [r.question for r in rows]
    pairs = [Pair(r.question, 0, Passage(str(i), r.document), r.perspective) for i, r in enumerate(rows)]
    kept, reports = VerdictStore(store), []
    for name in [n.strip() for n in judges.split(",")]:
        chosen = make_judge(name)
        p_yes, _ = judge_pairs(chosen, pairs, kept)
        report = agreement_report(labels, p_yes >= chosen.threshold, clusters)
        reports.append(report.assign(judge=name, threshold=chosen.threshold))
    table = pd.concat(reports, ignore_index=True)[["judge", "threshold", "measure", "value", "low", "high"]]
    click.echo(f"{len(rows)} pairs, {len(set(clusters))} questions, {labels.mean():.1%} positive", err=True)
    _print_frame(table, as_json)


# ---------------------------------------------------------------- prompts


@main.group()
def prompts() -> None:
    """Prompts: the papers' own wordings are imported from a local copy; ours come with the package."""


@prompts.command("import")
@click.argument("task", type=click.Choice(list(TASKS)))
@click.argument("source", type=click.Path(path_type=Path))
def prompts_import(task: str, source: Path) -> None:
    """Keep a published wording from a text file; [Document] or {document}, and so on, mark where the texts go."""
    from berdslib.llm.prompting import import_prompt

    click.echo(str(import_prompt(task, source, TASKS[task])))


@prompts.command("fetch")
@click.argument("task", type=click.Choice(list(TASKS)))
@click.option("--url", help="Where the authors' file is. [a place in their repository that was never tried]")
def prompts_fetch(task: str, url: str | None) -> None:
    """Download a published wording from its authors and keep it, as `import` does with a local file."""
    from berdslib.data.registry import fetch_prompt

    click.echo(str(fetch_prompt(task, TASKS[task], url)))


@prompts.command("show")
@click.argument("task", type=click.Choice(list(TASKS)))
@click.option("--wording", default="ours", show_default=True, type=click.Choice(["ours", "published"]))
def prompts_show(task: str, wording: str) -> None:
    """Print a prompt and its hash."""
    from berdslib.llm.prompting import load_prompt

    prompt = load_prompt(task, wording)
    click.echo(f"{prompt.name} {prompt.hash}\n\n{prompt.system}\n\n{prompt.user}")


# ---------------------------------------------------------------- data


@main.group()
def data() -> None:
    """Data sets: what there is, what it is, and how to get it."""


@data.command("list")
@_JSON
def data_list(as_json: bool) -> None:
    """List the known data sets."""
    from berdslib.data.registry import dataset, names

    rows = [dataset(name) for name in names()]
    if as_json:
        fields = ("name", "kind", "paper", "title", "licence")
        click.echo(json.dumps([{f: getattr(row, f) for f in fields} for row in rows], indent=1))
        return
    for row in rows:
        click.echo(f"{row.name:22} {row.kind:10} {row.paper:15} {row.title}")


@data.command("card")
@click.argument("name")
@_JSON
def data_card(name: str, as_json: bool) -> None:
    """Say what a data set is, its licence, and where it is looked for."""
    from dataclasses import asdict

    from berdslib.data.registry import card, dataset

    click.echo(json.dumps(asdict(dataset(name)), indent=1) if as_json else card(name))


@data.command("fetch")
@click.argument("name")
@_JSON
def data_fetch(name: str, as_json: bool) -> None:
    """Download a data set into the user cache; a download that broke off is continued."""
    from berdslib.data.registry import fetch

    paths = [str(path) for path in fetch(name)]
    click.echo(json.dumps(paths, indent=1) if as_json else "\n".join(paths))


@data.command("stats")
@_QUESTIONS
@_JSON
def data_stats(questions: str, split: str | None, limit: int, as_json: bool) -> None:
    """Print the columns of BeRDS Table 1 for sets of questions."""
    import pandas as pd

    from berdslib.data.registry import load_questions, statistics

    rows = [{"questions": name, **statistics(load_questions(name, split, limit))} for name in _names(questions)]
    _print_frame(pd.DataFrame(rows), as_json)


# ---------------------------------------------------------------- corpora


@main.group()
def corpus() -> None:
    """Corpora: count what is in one, write one to disk, make one from the web for each question."""


def _stream(name: str) -> tuple[Iterable[Any], str]:
    """Return the passages of a data set, a file, or a folder that `corpus write` made, and how they were cut."""
    from berdslib.data.corpus import Corpus, is_corpus
    from berdslib.data.formats import iter_passages
    from berdslib.data.registry import passage_file

    if is_corpus(name):
        found = Corpus(name)
        return found, found.cut
    return iter_passages(passage_file(name)), "none"


def _cut(stream: tuple[Iterable[Any], str], cut: str, words: int) -> tuple[Iterable[Any], str]:
    from berdslib.data.passages import CUTS, passages_of

    if cut == "none":
        return stream
    return passages_of(stream[0], lambda text: CUTS[cut](text, words)), cut


@corpus.command("stats")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--documents",
    type=click.Choice(["auto", "docno", "title", "passage"]),
    default="auto",
    show_default=True,
    help="What passages of one document share: the docno but for its -NUMBER, or the title (give that for the DPR "
    "dump); or every passage is a document. auto: docno where rows are cut here or were by `berds corpus write`, else "
    "passage; the last column says which.",
)
@_JSON
def corpus_stats(names: Sequence[str], documents: str, as_json: bool) -> None:
    """Print the columns of BeRDS Table 2 for corpora, and the words of a passage.

    NAME is a data set, a file, a BEIR folder, or a folder from `berds corpus write`; NAME:words and NAME:sentences
    cut its rows into passages of 100 words first. Of a folder from `berds corpus web` the means over its questions
    are printed, as in the paper.
    """
    from functools import partial

    import pandas as pd

    from berdslib.data.passages import CUTS, WORDS, corpus_statistics, documents_by
    from berdslib.data.textio import naming
    from berdslib.data.web import is_web_corpora, web_statistics

    rows = []
    for name in names:
        source, _, cut = name.rpartition(":")
        if is_web_corpora(name):
            rows.append({"corpus": name, **web_statistics(name), "documents_by": "docno"})
            continue
        passages, was_cut = _cut(_stream(source), cut, WORDS) if cut in CUTS else _stream(name)
        by = documents_by(documents, was_cut)
        counts = naming(name, partial(corpus_statistics, documents=by), passages)
        rows.append({"corpus": name, **counts, "documents_by": by})
    _print_frame(pd.DataFrame(rows), as_json)


@corpus.command("write")
@click.argument("source")
@click.argument("folder", type=_FOLDER)
@click.option(
    "--cut",
    type=click.Choice(["none", "words", "sentences"]),
    default="none",
    show_default=True,
    help="Rows are passages; or documents, to be cut anywhere, or between sentences.",
)
@click.option("--words", type=_POSITIVE, default=100, show_default=True, help="Of a passage, with --cut.")
@click.option(
    "--duplicates",
    type=click.Choice(["keep", "exact", "near"]),
    default="keep",
    show_default=True,
    help="Repeats to drop; near drops the exact ones too.",
)
@click.option("--near", type=click.FloatRange(0.5, 1), default=0.8, show_default=True, help="Similarity of near ones.")
@click.option("--limit", type=click.IntRange(min=0), default=0, help="Only the first N rows; 0 for all.")
@_JSON
def corpus_write(
    source: str, folder: Path, cut: str, words: int, duplicates: str, near: float, limit: int, as_json: bool
) -> None:
    """Write passages as a corpus on disk, which opens memory-mapped: `berds retrieve -c FOLDER`.

    SOURCE is a data set, a file (JSONL, CSV, TSV, also with .gz) or a BEIR folder. A corpus in FOLDER is replaced.
    """
    from collections import Counter
    from itertools import islice

    from berdslib.data.corpus import RepeatedDocnoError, naming_lines, write_corpus
    from berdslib.data.passages import without_duplicates
    from berdslib.data.registry import passage_file
    from berdslib.data.textio import naming

    def write(passages: Iterable[Any]) -> Sequence[Any]:
        try:
            return write_corpus(passages, folder, was_cut)
        except RepeatedDocnoError as error:
            raise naming_lines(error, passage_file(source), cut) from None

    removed: Counter[str] = Counter()
    rows, was_cut = _stream(source)
    passages, was_cut = _cut((islice(rows, limit or None), was_cut), cut, words)
    if duplicates != "keep":
        passages = without_duplicates(passages, near if duplicates == "near" else None, removed)
    written = naming(source, write, passages)
    size = sum(path.stat().st_size for path in folder.iterdir())
    summary = {"output": folder, "passages": len(written), "exact": removed["exact"], "near": removed["near"]}
    dropped = "" if duplicates == "keep" else f" ({removed['exact']} exact and {removed['near']} near repeats dropped)"
    sentence = f"{len(written)} passages{dropped}, {size:,} bytes → {folder}"
    _done({**summary, "bytes": size}, sentence, as_json)


@corpus.command("web")
@_QUESTIONS
@click.option("-o", "--output", required=True, type=_FOLDER, help="Folder for QID.jsonl, pages.csv and corpora.json.")
@click.option("--top", default=100, show_default=True, type=_POSITIVE, help="Search results for each question.")
@click.option(
    "--extractor", default="trafilatura", show_default=True, help="What takes a page's text: or readability+html2text."
)
@click.option("--workers", default=16, show_default=True, type=_POSITIVE, help="Hosts that are asked at a time.")
@click.option("--offline", is_flag=True, help="Read from the cache only; ask nobody.")
@click.option("--retry-failed", is_flag=True, help="Fetch pages again that failed the last time.")
@_JSON
def corpus_web(
    questions: str,
    split: str | None,
    limit: int,
    output: Path,
    top: int,
    extractor: str,
    workers: int,
    offline: bool,
    retry_failed: bool,
    as_json: bool,
) -> None:
    """Search the web for each question and make a corpus of the pages found; BeRDS section 4.2.

    The search goes through serper.dev with the key in the environment variable SERPER_API_KEY. What was answered is
    kept in the user cache: the same command later gives the same corpora and asks nobody. With -c FOLDER, other
    commands search each question in its own.
    """
    from berdslib.data.web import Web, failures, web_corpora
    from berdslib.data.webtext import check_extractor

    if offline and retry_failed:
        raise click.UsageError("--offline fetches nothing, so it cannot --retry-failed")
    asked = _load_questions(questions, split, limit)
    web = Web(
        num=top, extractor=check_extractor(extractor), workers=workers, offline=offline, retry_failed=retry_failed
    )
    report = web_corpora(asked, output, web)
    answered = report.loc[report["passages"] > 0, "qid"].nunique()
    summary = {
        "output": output,
        "questions": len(asked),
        "with_passages": answered,
        "pages": len(report),
        "passages": int(report["passages"].sum()),
        "outcomes": report["outcome"].value_counts().to_dict(),
    }
    sentence = f"{failures(report)}\n{summary['passages']} passages for {answered} of {len(asked)} questions → {output}"
    _done(summary, sentence, as_json)


# ---------------------------------------------------------------- perspective-aware retrieval


@main.command()
@click.option("-d", "--data", "source", default="pir-demo", show_default=True, help="Data set, JSON file or folder.")
@click.option("-t", "--tasks", default="", help="Comma-separated. [all of them]")
@click.option("-m", "--methods", default="baseline,pap,pap+", show_default=True, help="Comma-separated, or all.")
@click.option("-e", "--encoder", default="minilm", show_default=True, help="A dense retriever's name.")
@click.option("-k", default=5, show_default=True, type=_POSITIVE, help="Cut-off.")
@click.option(
    "--single-root",
    default="keep",
    show_default=True,
    type=click.Choice(["keep", "zero", "skip"]),
    help="What a root with one query scores; zero is what the published code does.",
)
@click.option(
    "--difference",
    default="ambigqa",
    show_default=True,
    help="Tasks whose perspective's text is the query itself: there query - root stands for it.",
)
@_JSON
def pir(
    source: str, tasks: str, methods: str, encoder: str, k: int, single_root: str, difference: str, as_json: bool
) -> None:
    """Score projections on perspective-aware retrieval: p-Recall@k, methods x tasks. PIR Tables 4 and 8."""
    from berdslib.study.pir import score_methods

    table = score_methods(
        source,
        _names(tasks) if tasks else [],
        [] if methods == "all" else _names(methods),
        encoder=encoder,
        k=k,
        single_root=single_root,
        difference=_names(difference) if difference else [],
    )
    _print_frame(table, as_json)


# ---------------------------------------------------------------- notebooks


@main.group()
def notebook() -> None:
    """Notebooks: list them, show their parameters, run one in batch."""


@notebook.command("list")
@_JSON
def notebook_list(as_json: bool) -> None:
    """List the notebooks with their parameters and defaults."""
    from berdslib.study.notebooks import notebook_folder, read_parameters

    found = {p.stem: read_parameters(p) for p in sorted(notebook_folder().glob("[0-9][0-9]_*.ipynb"))}
    if as_json:
        tables = {stem: [p._asdict() for p in parameters.values()] for stem, parameters in found.items()}
        click.echo(json.dumps(tables, indent=1))
        return
    for stem, parameters in found.items():
        click.echo(stem)
        for p in parameters.values():
            click.echo(f"    {p.name} = {p.default!r}    {p.help}")


@notebook.command("run")
@click.argument("name")
@click.option("-p", "parameters", multiple=True, nargs=2, metavar="NAME VALUE", help="A parameter; may be repeated.")
@click.option("-o", "--output", type=_FOLDER, help="Folder. [papermill_runs/NAME-HASH]")
@click.option("--show/--no-show", default=True, help="Print the notebook's tables when it is done.")
@_JSON
def notebook_run(
    name: str, parameters: Sequence[tuple[str, str]], output: Path | None, show: bool, as_json: bool
) -> None:
    """Run a notebook by papermill; unknown or mistyped parameters are refused before anything starts."""
    from berdslib.study.notebooks import run_notebook

    done = run_notebook(name, dict(parameters), output=output)
    if show and not as_json:
        _show_results(done)
    summary = {**done.record, "output": done.notebook}
    _done(summary, f"finished in {done.record['seconds']} s → {done.notebook}", as_json)


def _show_results(done: Any) -> None:
    path = done.folder / "scores.csv"
    if path.exists():
        import pandas as pd

        from berdslib.study.experiment import paper_table

        wide = paper_table(pd.read_csv(path), intervals=True)
        # A terminal is narrow: the data sets below each other, not side by side.
        datasets = dict.fromkeys(wide.columns.get_level_values(0))
        click.echo(pd.concat({d: wide[d] for d in datasets}, names=["dataset"]).to_string())
        click.echo("In percent, with 95 % intervals; *: p < .05 against the first system.")


# ---------------------------------------------------------------- grids


_GRID_FILE = click.argument("path", metavar="FILE", type=click.Path(path_type=Path))


@main.group()
def grid() -> None:
    """Grids: one notebook over many settings; papermill_runs/README.md shows a file."""


@grid.command("run")
@_GRID_FILE
@click.option("--workers", type=_POSITIVE, help="Notebooks that run at a time, on this machine. [1]")
@click.option("--scheduler", metavar="ADDRESS", help="Run on the dask cluster there, such as tcp://host:8786.")
@click.option("--stop-on-error", is_flag=True, help="Begin nothing new after the first failure.")
@_JSON
def grid_run(path: Path, workers: int | None, scheduler: str | None, stop_on_error: bool, as_json: bool) -> None:
    """Run what is not finished yet; all parameters are checked before anything starts.

    The scores of all runs go into papermill_runs/NAME/summary.csv. The exit code is not 0 if a run failed.
    """
    from berdslib.study.grid import best_run, read_grid, run_grid, status, summarise

    if workers and scheduler:
        raise click.UsageError("give --workers for this machine or --scheduler for a cluster, not both")
    asked = read_grid(path)
    failures = run_grid(asked, workers=workers or 1, scheduler=scheduler, stop_on_error=stop_on_error)
    for run, problem in failures.items():
        click.echo(f"berds: {run}: {problem}", err=True)
    best = best_run(asked, summarise(asked))
    finished = sum(row["state"] == "finished" for row in status(asked))
    summary = {
        "grid": path.stem,
        "runs": len(asked.runs),
        "finished": finished,
        "failures": failures,
        "summary": asked.summary,
        "best": best,
    }
    if best and not as_json:
        click.echo(f"best of {best['compared']}: {best['run']}, {best['value']:.4f}, {best['parameters']}")
    _done(summary, f"{finished} of {len(asked.runs)} runs finished, {len(failures)} failed → {asked.summary}", as_json)
    if failures:
        sys.exit(1)


@grid.command("status")
@_GRID_FILE
@_JSON
def grid_status(path: Path, as_json: bool) -> None:
    """List the runs of a grid: finished, unfinished (under way, failed or broken off) or not started."""
    import pandas as pd

    from berdslib.study.grid import read_grid, status

    rows = status(read_grid(path))
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    parameters = pd.DataFrame([row.pop("parameters") for row in rows])
    varied = [name for name in parameters if parameters[name].astype(str).nunique() > 1]
    _print_frame(pd.concat([pd.DataFrame(rows), parameters[varied]], axis=1), as_json)


@main.command()
@_JSON
def demo(as_json: bool) -> None:
    """Run the quickstart notebook on the shipped sample and print its table. No network needed."""
    from berdslib.study.notebooks import run_notebook

    done = run_notebook("00_quickstart")
    pictures = sorted(done.folder.glob("*.png"))
    if as_json:
        _done({**done.record, "output": done.notebook, "pictures": pictures}, "", as_json)
        return
    _show_results(done)
    click.echo(f"finished in {done.record['seconds']} s")
    click.echo(f"notebook: {done.notebook}")
    for picture in pictures:
        click.echo(f"picture:  {picture}")


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def lab(arguments: Sequence[str]) -> None:
    """Open the notebooks in JupyterLab; further arguments go to `jupyter lab`."""
    from berdslib.study.notebooks import notebook_folder

    beside = Path(sys.executable).with_name("jupyter")
    jupyter = str(beside) if beside.exists() else shutil.which("jupyter")
    if jupyter is None:
        raise InputError("jupyter is not installed beside this Python; pip install jupyterlab")
    sys.exit(subprocess.call([jupyter, "lab", *arguments], cwd=notebook_folder()))


if __name__ == "__main__":
    main()
