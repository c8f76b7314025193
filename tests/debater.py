"""A chat model that builds a small benchmark from arguments, well or with faults, and the arguments themselves."""

import json
from collections import Counter

from berdslib.llm.chat import Reply

# topic → what the debate is about; no two are alike, or they would have to stay on one side of the split
TOPICS = {
    "zoos": "zoos be closed for good",
    "trams": "new trams replace night buses",
    "phones": "pupils keep phones out of class",
    "uniforms": "every nurse choose her own uniforms",
    "airports": "airports pay for the noise they make",
    "circuses": "animals perform in circuses",
    "tuitions": "tuitions depend on income",
    "lotteries": "states earn money by lotteries",
}


def asks(topic):
    return f"Should {TOPICS[topic]}?"


def says(topic):
    return f"It is right that {TOPICS[topic]}.", f"It is not right that {TOPICS[topic]}."


def labelled(topic):
    return "statement: {}\nnegation: {}".format(*says(topic))


class Debater:
    """A chat model that answers every step of the arguments by what it is asked, and counts what it is asked."""

    def __init__(self, id="debater", faults=None):
        self.id, self.faults, self.asked = id, faults or {}, Counter()

    def complete(self, messages):
        text = messages[-1]["content"]
        self.asked[json.dumps(messages)] += 1
        topic = next(t for t in TOPICS if any(t in m["content"] for m in messages if m["role"] == "user"))
        if "stand two arguments" in messages[1]["content"]:
            step, said = "question", asks(topic)
        elif "answer no hold" in messages[1]["content"]:
            step = "statements"
            said = labelled(topic)
        else:
            step, said = "labels", "1"
        fault = self.faults.get((topic, step))
        if isinstance(fault, Exception):
            raise fault
        if isinstance(fault, Reply):
            return fault
        if fault is not None and (fault != "once" or "cannot be read" not in text):
            said = "" if fault == "once" else fault
        return Reply(said)


def write_arguments(path):
    """Write a point and a counter-point on each topic, and a point that stands alone."""
    rows = [
        {"_id": f"{topic}-pro01{side}", "title": "", "text": f"{topic} are {word}."}
        for topic in TOPICS
        for side, word in (("a", "good"), ("b", "bad"))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"_id": "lone-pro01a", "text": "Alone."}]))
    return path
