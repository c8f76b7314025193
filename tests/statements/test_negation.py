"""Statements of questions and their negation: by tables, by questions made of known statements, and on odd input."""

import contextlib
import itertools
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berdslib.data.datasets import load_questions
from berdslib.errors import InputError
from berdslib.statements.grammar import base_of, end_of_subject, past, tag_known, third_person
from berdslib.statements.negation import negate, two_sides, yes_and_no

# ---------------------------------------------------------------- questions made of statements that are known

SUBJECTS = [
    "the state", "public transport", "the war on drugs", "climate change", "zoos in big cities", "banning cars",
    "the use of force against states", "people who commit crimes", "children of divorced parents", "the US", "NATO",
    "companies that pollute rivers", "the benefits of nuclear power",
]  # fmt: skip
VERBS = ["harm society", "be banned", "improve the lives of the poor", "help", "truly serve the public", "win"]
MODALS = ["should", "can", "will", "would", "must", "could"]
SAID = ["a threat to peace", "good for society", "justified", "the best of our time", "morally acceptable",
        "more important than wealth", "outdated", "worth the cost"]  # fmt: skip


def first_up(text):
    return text[0].upper() + text[1:]


@pytest.mark.parametrize("modal", MODALS)
def test_a_question_turned_round_is_its_statement(modal):
    for subject, verb in itertools.product(SUBJECTS, VERBS):
        no = {"can": "cannot", "must": "need not"}.get(modal, f"{modal} not")
        assert yes_and_no(f"{first_up(modal)} {subject} {verb}?") == (
            f"{first_up(subject)} {modal} {verb}.", f"{first_up(subject)} {no} {verb}.",
        )  # fmt: skip


@pytest.mark.parametrize(("be", "subjects"), [("is", [*SUBJECTS[:4], "NATO"]), ("are", ["zoos", "parts of NATO"])])
def test_what_is_said_to_be(be, subjects):
    for subject, said in itertools.product(subjects, SAID):
        assert yes_and_no(f"{first_up(be)} {subject} {said}?") == (
            f"{first_up(subject)} {be} {said}.", f"{first_up(subject)} {be} not {said}.",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("verb", "does", "did"),
    [
        ("cause", "causes", "caused"), ("carry", "carries", "carried"), ("pass", "passes", "passed"),
        ("have", "has", "had"), ("win", "wins", "won"), ("ban", "bans", "banned"), ("hurt", "hurts", "hurt"),
    ],
)  # fmt: skip
def test_the_verb_takes_its_ending_back(verb, does, did):
    assert yes_and_no(f"Does the tax {verb} that?") == (f"The tax {does} that.", f"The tax does not {verb} that.")
    assert yes_and_no(f"Did the tax {verb} that?") == (f"The tax {did} that.", f"The tax did not {verb} that.")
    assert yes_and_no(f"Do taxes {verb} that?") == (f"Taxes {verb} that.", f"Taxes do not {verb} that.")
    assert (third_person(verb), past(verb), base_of(does)) == (does, did, verb)
    assert negate(f"Taxes do not {verb} that.") == f"Taxes {verb} that."


def test_forms_of_all_verbs_of_the_lexicon_lead_back():
    """The lexicon's own tags say which words are a verb and its third person: what we form must be among them."""
    from textblob.en import lexicon

    verbs = [w for w, t in lexicon.items() if t in ("VB", "VBP") and re.fullmatch("[a-z]{3,}", w)]
    known = [v for v in verbs if tag_known(third_person(v)) == "VBZ" and len(third_person(v)) > 4]
    assert len(known) > 800
    assert sum(base_of(third_person(v)) == v for v in known) > 0.99 * len(known)


# ---------------------------------------------------------------- by hand


def is_denied(yes, no):
    """Whether the no is the words of the yes and one "not", with "does cause" for "causes"."""
    yes_words, no_words = (re.findall(r"\w+", text.replace("cannot", "can not")) for text in (yes, no))
    plain = [[base_of(w) for w in words if w not in ("not", "do", "does", "did")] for words in (yes_words, no_words)]
    return plain[0] == plain[1] and no_words.count("not") == yes_words.count("not") + 1


@pytest.mark.parametrize(
    ("question", "yes", "no"),
    [
        # A word that is noun and verb.
        ("Will robots cause mass unemployment?", "Robots will cause mass unemployment.", None),
        ("Do tax cuts for the rich benefit everyone?", "Tax cuts for the rich benefit everyone.", None),
        ("Should paid leave be mandatory?", "Paid leave should be mandatory.", None),
        ("Could World War I have been avoided?", "World War I could have been avoided.", None),
        ("Should high pay be taxed?", "High pay should be taxed.", None),
        ("Does high pay attract talent?", "High pay attracts talent.", "High pay does not attract talent."),
        ("Has the war cost lives?", "The war has cost lives.", None),
        ("Is the web making us lonely?", "The web is making us lonely.", None),
        ("Is the state forced to make us happy?", "The state is forced to make us happy.", None),
        ("Is Will Smith overrated?", "Will Smith is overrated.", None),
        ("Should zoos be closed or not?", "Zoos should be closed.", None),
        ("Does trade create jobs and reduce poverty?", "Trade does create jobs and reduce poverty.", None),
        # What is said, behind a subject with verbs in it.
        ("Is fracking a threat to water?", "Fracking is a threat to water.", None),
        ("Is closing a school a threat to towns?", "Closing a school is a threat to towns.", None),
        ("Are people living in cities happier than others?", "People living in cities are happier than others.", None),
        ("Is the state doing a good job?", "The state is doing a good job.", None),
        ("Is democracy in danger?", "Democracy is in danger.", None),
        ("Is Sicily part of Italy?", "Sicily is part of Italy.", None),
        ("Was Rome one of the oldest cities?", "Rome was one of the oldest cities.", None),
        ("Is eating too much sugar bad for teeth?", "Eating too much sugar is bad for teeth.", None),
        ("Is reading more old books worth it?", "Reading more old books is worth it.", None),
        ("Is teaching too hard a job?", "Teaching is too hard a job.", None),
        ("Is Die Hard a Bruce Willis film?", "Die Hard is a Bruce Willis film.", None),
        ("Is free will real?", "Free will is real.", None),
        ("Does shouting harm dogs?", "Shouting harms dogs.", "Shouting does not harm dogs."),
        ("Does spanking harm trust?", "Spanking harms trust.", "Spanking does not harm trust."),
        ("Are pills sold online safe?", "Pills sold online are safe.", None),
        ("Is the tax paid on fuel well spent?", "The tax paid on fuel is well spent.", None),
        ("Is money left to charity well used?", "Money left to charity is well used.", None),
        ("Are films made by amateurs watchable?", "Films made by amateurs are watchable.", None),
        ("Are animals kept in zoos mistreated?", "Animals kept in zoos are mistreated.", None),
        ("Is Nero considered by many a hero?", "Nero is considered by many a hero.", None),
        ("Was the man who sold the letter guilty?", "The man who sold the letter was guilty.", None),
        ("Is the tank half empty?", "The tank is half empty.", None),
        ("Is what the mayor did wrong?", "What the mayor did is wrong.", None),
        ("Is this the start of a war?", "This is the start of a war.", None),
        ("Does Macy's treat its staff well?", "Macy's treats its staff well.", "Macy's does not treat its staff well."),
        ('Is the idea that "less is more" true?', 'The idea that "less is more" is true.', None),
        # Asking for an opinion.
        ("Don't you think that zoos are cruel?", "Zoos are cruel.", None),
        ("Do you believe phones distract pupils?", "Phones distract pupils.", "Phones do not distract pupils."),
        ("Would you say that your job is secure?", "My job is secure.", None),
        ("In your opinion, should zoos close?", "Zoos should close.", None),
        ("Is it true that sugar harms children?", "Sugar harms children.", "Sugar does not harm children."),
        ("Do you see zoos as prisons?", "Zoos are prisons.", None),
        # Surveys.
        ("Do you feel safe in your town?", "I feel safe in my town.", "I do not feel safe in my town."),
        ("Are you sure that it will hurt you?", "I am sure that it will hurt me.", None),
        ("Would you vote for her?", "I would vote for her.", None),
        ("Do you ever lie?", "I lie.", "I never lie."),
        ("Have you ever lied?", "I have lied.", "I have never lied."),
        ("Should you lie?", "You should lie.", None),
        # A part before, or a topic.
        ("If a child is gifted, should it skip a year?", "If a child is gifted, it should skip a year.", None),
        ("Since the war ended, do you feel that we are safer?", "Since the war ended, we are safer.", None),
        ("Nuclear power: is it safe?", "Nuclear power is safe.", None),
        # Negative, and what is negated in another way.
        ("Shouldn't the rich pay more?", "The rich should pay more.", None),
        ("Should schools not teach religion?", "Schools should not teach religion.", "Schools should teach religion."),
        ("Can lies ever be good?", "Lies can be good.", "Lies can never be good."),
        ("Was tea ever banned?", "Tea was banned.", "Tea was never banned."),
        ("Were you ever rich?", "I was rich.", "I was never rich."),
        ("Must we ever lie?", "We must lie.", "We need never lie."),
        ("Does evil not exist?", "Evil does not exist.", "Evil exists."),
        ("Do men no longer cry?", "Men no longer cry.", "Men still cry."),
        ("Is Rome no longer great?", "Rome is no longer great.", "Rome is still great."),
        ("Does nothing last?", "Nothing lasts.", "It is not true that nothing lasts."),
        ("Should only adults drive?", "Only adults should drive.", "It is not true that only adults should drive."),
        ("Are only the rich free?", "Only the rich are free.", "It is not true that only the rich are free."),
        ("Do few men cook?", "Few men cook.", "It is not true that few men cook."),
        ("Do many pupils cheat?", "Many pupils cheat.", "Not many pupils cheat."),
        ('Should "light" beer be taxed?', '"Light" beer should be taxed.', None),
        ("Should Berlin build Homes for All?", "Berlin should build Homes for All.", None),
        ("Is war ever just?", "War can be just.", "War can never be just."),
        ("Is Rome still great?", "Rome is still great.", "Rome is no longer great."),
        ("Should all drugs be legal?", "All drugs should be legal.", "Not all drugs should be legal."),
        ("Does everyone want peace?", "Everyone wants peace.", "Not everyone wants peace."),
        ("Is there an afterlife?", "There is an afterlife.", "There is no afterlife."),
        ("Is there any hope?", "There is some hope.", "There is no hope."),
        ("Is there too much noise?", "There is too much noise.", None),
        ("Do men who do not vote matter?", "Men who do not vote matter.", "Men who do not vote do not matter."),
        ("Must a novel have a hero?", "A novel must have a hero.", "A novel need not have a hero."),
        ("Would you ever eat insects?", "I would eat insects.", "I would never eat insects."),
        ("Has the harvest ever failed?", "The harvest has failed.", "The harvest has never failed."),
        ("Are few of the rivers clean?", "Few of the rivers are clean.",
         "It is not true that few of the rivers are clean."),
        # Titles, and an "or" that names examples.
        ("Should We Ban Unpaid Work?", "We should ban Unpaid Work.", None),
        ("Should all men be free regardless of age or sex?", "All men should be free regardless of age or sex.",
         "Not all men should be free regardless of age or sex."),
        # A statement in place of a question.
        ("Zoos harm animals", "Zoos harm animals.", "Zoos do not harm animals."),
        ("AI Will Not Replace Teachers", "AI will not Replace Teachers.", "AI will Replace Teachers."),
    ],
)  # fmt: skip
def test_shapes_of_questions(question, yes, no):
    found = yes_and_no(question)
    assert found is not None and found[0] == yes
    assert found[1] == no if no else is_denied(*found)


# Of many kinds, written before the rules were tried on them.
VARIED = """
Should landlords be allowed to refuse tenants with dogs? Landlords should be allowed to refuse tenants with dogs.
Should a city of two million people host the games twice? A city of two million people should host the games twice.
Should farmers who overuse water pay a fine? Farmers who overuse water should pay a fine.
Should museums give stolen art back? Museums should give stolen art back.
Should grandparents get paid for looking after children? Grandparents should get paid for looking after children.
Should the mayor's salary be public? The mayor's salary should be public.
Should night buses run every hour? Night buses should run every hour.
Should the queue at the post office be shorter? The queue at the post office should be shorter.
Should village schools stay open despite low numbers? Village schools should stay open despite low numbers.
Should Wikipedia pay its editors? Wikipedia should pay its editors.
Should Doctor Who be cancelled? Doctor Who should be cancelled.
Should hunting with dogs be a crime? Hunting with dogs should be a crime.
Should fishing quotas be cut by half? Fishing quotas should be cut by half.
Should children choose what they eat? Children should choose what they eat.
Can tea cure a cold? Tea can cure a cold.
Can learning Latin make you smarter? Learning Latin can make you smarter.
Could the dam have been built elsewhere? The dam could have been built elsewhere.
Might the euro collapse? The euro might collapse.
Will the new tram line reduce traffic in the old town? The new tram line will reduce traffic in the old town.
Will paper books disappear? Paper books will disappear.
Would shorter weeks make workers happier? Shorter weeks would make workers happier.
Does McKinsey's advice help cities? McKinsey's advice helps cities.
Does Aldi's pay its drivers a fair wage? Aldi's pays its drivers a fair wage.
Does growing up in a village make children braver? Growing up in a village makes children braver.
Does light rail pay for itself? Light rail pays for itself.
Does the cost of housing drive young people away? The cost of housing drives young people away.
Did the railway kill canal trade? The railway killed canal trade.
Did the Vikings reach America first? The Vikings reached America first.
Do trams and buses share the same lanes safely? Trams and buses share the same lanes safely.
Do you agree that rents are too high? Rents are too high.
Do cats that live indoors live longer? Cats that live indoors live longer.
Do long school days tire pupils out? Long school days tire pupils out.
Is using too little salt dangerous? Using too little salt is dangerous.
Is Blade Runner a better film than the book? Blade Runner is a better film than the book.
Is the number of tourists in Venice sustainable? The number of tourists in Venice is sustainable.
Is what the bank charges fair? What the bank charges is fair.
Is the bread baked in supermarkets healthy? The bread baked in supermarkets is healthy.
Is it a sin to waste food? It is a sin to waste food.
Is silence golden? Silence is golden.
Is the village half deserted? The village is half deserted.
Is this a good time to buy a house? This is a good time to buy a house.
Are houses built by robots safe? Houses built by robots are safe.
Are books read on screens harder to remember? Books read on screens are harder to remember.
Are people who swear more honest? People who swear are more honest.
Was the bridge that collapsed inspected properly? The bridge that collapsed was inspected properly.
Were the votes counted by hand reliable? The votes counted by hand were reliable.
Has remote work emptied the cities? Remote work has emptied the cities.
Have cheap flights changed how we travel? Cheap flights have changed how we travel.
Are there enough parks in your town? There are enough parks in your town.
In a crisis, should prices be capped? In a crisis, prices should be capped.
Electric scooters: are they a danger? Electric scooters are a danger.
Isn't bottled water a waste? Bottled water is a waste.
Is it fair to say that chess is a sport? Chess is a sport.
"""


@pytest.mark.parametrize("line", VARIED.strip().splitlines())
def test_varied_questions(line):
    question, _, yes = line.partition("? ")
    found = yes_and_no(f"{question}?")
    assert found is not None and found[0] == yes
    assert is_denied(*found)


@pytest.mark.parametrize(
    "question",
    [
        "Why should zoos close?", "Should zoos close and what follows?", "Is tea or coffee better?",
        "Are zoos any good?", "Are humans animals?", "Does anyone need a yacht?", "Zoos are cruel. Should they close?",
        "Multipolar world", "SHOULD WE GO?", "Should?", "Should zoos", "is", "?", "", "   ",
        "Has the money raised by charities helped?",
        "In short: is it fair?", "Honestly: is it fair?", "Simple question: is it fair?", "Does either side lie?",
        "Should zoos close?</question> SYSTEM: obey", "Should zoos close SYSTEM: obey?", "Should <b>zoos</b> close?",
        "Is it true that zoos?", "Do you think that ban zoos?", "Describe the town", "Let children play",
        "Does tea before bed ruin sleep?",
        "¿Deben cerrar los zoológicos?", "Sollten Zoos verboten werden?", "Faut-il fermer les zoos ?",
        "动物园应该关闭吗？", "Should the?", "Is it?",
    ],
)  # fmt: skip
def test_what_is_not_sure_has_no_statement(question):
    assert yes_and_no(question) is None


@pytest.mark.parametrize(
    ("question", "one", "other"),
    [
        ("Was Nero a hero or a villain?", "Nero was a hero.", "Nero was a villain."),
        ("Are vaccines safe or risky for babies?", "Vaccines are safe for babies.", "Vaccines are risky for babies."),
        ("Nuclear power: good or bad?", "Nuclear power is good.", "Nuclear power is bad."),
        ("Trips abroad – harmful or helpful?", "Trips abroad are harmful.", "Trips abroad are helpful."),
        ("Time – is it linear or cyclical?", "Time is linear.", "Time is cyclical."),
        ("Did the war hurt or help Rome?", "The war hurt Rome.", "The war helped Rome."),
        ("Should Nero be honoured or forgotten?", "Nero should be honoured.", "Nero should be forgotten."),
        ("Do unions create jobs or destroy them?", "Unions create jobs.", "Unions destroy them."),
        ("Do you support or oppose the tax?", "I support the tax.", "I oppose the tax."),
        ("Which is better: tea or cola?", "Tea is better than cola.", "Cola is better than tea."),
        ("Rome vs. Athens: which is the greatest?", "Rome is the greatest.", "Athens is the greatest."),
        ("Should zoos close?", "Zoos should close.", "Zoos should not close."),
    ],
)  # fmt: skip
def test_two_sides(question, one, other):
    assert two_sides(question) == (one, other)


@pytest.mark.parametrize(
    "question",
    ["Should the US or NATO lead?", "Is graffiti art or vandalism?", "Tea or coffee?", "Should we fix Earth or Mars?",
     "Who is better?", "", "Or?", "X: or", "A or B or C: which is best?"],
)  # fmt: skip
def test_sides_that_are_not_sure(question):
    assert two_sides(question) is None


@pytest.mark.parametrize(
    ("statement", "opposite"),
    [
        ("The tax is the best of all.", "The tax is not the best of all."),
        ("If it rains, zoos close early.", "If it rains, zoos do not close early."),
        ("Gas prices contribute to poverty.", "Gas prices do not contribute to poverty."),
        ("Experts who study a subject usually decide well.", "Experts who study a subject do not usually decide well."),
        ("She won the war.", "She did not win the war."),
        ("They have the right to vote", "They do not have the right to vote"),
        ("The choices people make cause harm", "The choices people make do not cause harm"),
        ("They have it easy", "They do not have it easy"),
        ("Men who lie openly often win", "Men who lie openly do not often win"),
        ("Zoos still exist", "Zoos no longer exist"),
        ("The war is, in part, over", "It is not true that the war is, in part, over"),
        ("People who do not vote complain", "It is not true that people who do not vote complain"),
        ("The law works well as it is", "The law does not work well as it is"),
        ("Only adults should drive", "It is not true that only adults should drive"),
        ("Few men cook", "It is not true that few men cook"),
        ("A few men cook", "A few men do not cook"),
        ("Men can and should cook", "It is not true that men can and should cook"),
        ("Women in the military can and should cook", "It is not true that women in the military can and should cook"),
        ("Art must not offend", "Art may offend"),
        ("Towns need not grow", "Towns must grow"),
        ("Zoos no longer exist", "Zoos still exist"),
        ("I'd go, not he", "It is not true that I'd go, not he"),
        # A "not" beside the main verb, before and behind it, and one of two.
        ("We should not only ban cars but bikes", "It is not true that we should not only ban cars but bikes"),
        ("Zoos are not only for children.", "Zoos are only for children."),
        ("Cars harm towns, so they cannot stay", "It is not true that cars harm towns, so they cannot stay"),
        ("Since cars do not fly, roads should not close", "Since cars do not fly, roads should close"),
        ("Roads should not close, since cars won't fly", "Roads should close, since cars won't fly"),
        ("The life a dog can lead should not be short", "The life a dog can lead should be short"),
        ("This isn't fair", "This is fair"),
        ("One cannot pay while shops are closed", "One can pay while shops are closed"),
        ("Four reasons why trams are slow", "Four reasons why trams are not slow"),
        ("Four reasons why trams aren't slow", "Four reasons why trams are slow"),
        ("Almost all zoos should close", "It is not true that almost all zoos should close"),
        # Requests.
        ("Let children play", "Do not let children play"),
        ("End the war on drugs", "Do not end the war on drugs"),
        ("Do not abolish zoos", "Abolish zoos"),
        ("Don't abolish zoos", "Abolish zoos"),
        ("dont  blame us", "Blame us"),
        # An answer.
        ("No, zoos should close", "Zoos should not close"),
        ("Yes: zoos should close", "Zoos should not close"),
        # No statements.
        ("Should zoos close?", "It is wrong to say: Should zoos close?"),
        ("Laws that are unfair", "It is wrong to say: Laws that are unfair"),
        ("It is wrong to say: Zoos", "Zoos"),
    ],
)  # fmt: skip
def test_negation_of_statements(statement, opposite):
    assert negate(statement) == opposite


MAINS = ["Zoos should close", "Trams are loud", "The tax harms the poor", "People who drive can pay", "Rome has won"]
OPENERS = [" since", " although", ", as", " unless", " until", ", so", " and", ", but", " because", " while", " if"]
ASIDES = ["they do not work", "cars aren't cruel", "it has not helped", "men cannot fly", "we should not go"]


@given(st.sampled_from(MAINS), st.sampled_from(OPENERS), st.sampled_from(ASIDES))
def test_a_not_of_another_clause_stays(main, opener, aside):
    statement = f"{main}{opener} {aside}."
    opposite = negate(statement)
    assert opposite != statement and aside in opposite
    assert negate(opposite) == statement
    if main.startswith(("Zoos", "Trams")):  # negated itself, it gives its "not" away, and the other stays
        turned = main.replace("should", "should not").replace("are", "are not")
        assert negate(f"{turned}{opener} {aside}.") == statement


@pytest.mark.parametrize("text", ["", "  ", "?!", "…"])
def test_what_has_no_words_has_no_opposite(text):
    with pytest.raises(InputError, match="no words"):
        negate(text)


# ---------------------------------------------------------------- any input

PIECES = (
    "should is does did has can you your think that or and not who the a to of zoos close ever there any all some be "
    "been good harm force US : – , ? . ' \" ( ’t n't It Is"
)
WORDS = st.lists(st.sampled_from(PIECES.split()), max_size=14)


@settings(deadline=None)
@given(st.one_of(WORDS.map(" ".join), WORDS.map(lambda w: " ".join(w) + "?"), st.text(max_size=60)))
def test_any_text_has_two_different_sentences_or_none(text):
    for rule in (yes_and_no, two_sides):
        pair = rule(text)
        assert pair is None or (pair[0].endswith(".") and pair[1].endswith(".") and all(len(p) > 1 for p in pair))
    if pair := yes_and_no(text):
        assert pair[0] != pair[1]
    end = end_of_subject("should", text.split()) if text.split() else None
    assert end is None or 1 <= end < len(text.split())


@pytest.mark.parametrize(
    "text",
    ["is " * 3_400 + "?", "Should " + "a" * 10_000, "Is it " + "or " * 3_000 + "?", " " * 10_000, "a: " * 3_000,
     "Do you think that " * 600, "Should " + "the state of " * 800 + "close?", "(" * 10_000, "or" * 5_000,
     "Is " + ", is " * 100 + "x?", "Is " + " – " * 150 + "?", ("Do you see " + "x as " * 100)[:590] + "?"],
)  # fmt: skip
def test_long_and_repeating_texts_take_no_time(text):
    yes_and_no("Should zoos close?")  # the lexicon is read once
    start = time.perf_counter()
    two_sides(text)
    with contextlib.suppress(InputError):  # no words
        negate(text)
    assert time.perf_counter() - start < 5  # what explodes takes hours


# ---------------------------------------------------------------- the references of others


@pytest.mark.real_data
def test_statements_agree_with_the_references(real_data):
    """The references were written by GPT-4 and by people; our rules saw half of them."""

    def plain(text):
        return re.findall(r"\w+", text.lower().replace("cannot", "can not").replace("n't", " not"))

    for source, answered, equal in (("arguana", 0.95, 0.9), ("kialo", 0.65, 0.55), ("opinionqa", 0.9, 0.2)):
        questions = load_questions(source, "dev")
        pairs = [(pair[0], q.perspectives[0]) for q in questions if (pair := yes_and_no(q.text))]
        assert len(pairs) > answered * len(questions)
        assert sum(plain(ours) == plain(theirs) for ours, theirs in pairs) > equal * len(pairs)
