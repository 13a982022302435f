#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts entities in predicted labels of words and compares the figures with those of `cltrain eval --json`.

check_entities.py DATA PREDICTED EVAL: DATA has "ner_tags" in each line, PREDICTED "labels", both JSON Lines. seqeval counts if it is installed, else
a count of this script, which cuts the labels of a sentence into entities by a regular expression over its marks."""
import json
import re
import sys

try:
    from seqeval.metrics.sequence_labeling import get_entities
except ImportError:
    get_entities = None


def cut(labels):
    """Entities as (type, first, last). Each label becomes a letter: b for one that must begin an entity, i for one that goes on, o for O."""
    letters, before = "", "O"
    for label in labels:
        starts = label[0] in "BS" or before == "O" or before[0] in "ES" or before[2:] != label[2:]
        letters += "o" if label == "O" else "b" if starts else "i"
        before = label
    return {(labels[m.start()][2:], m.start(), m.end() - 1) for m in re.finditer("bi*", letters)}


def main():
    data, predicted, figures = sys.argv[1:4]
    with open(data, encoding="utf-8") as file:
        want = [json.loads(line)["ner_tags"] for line in file]
    with open(predicted, encoding="utf-8") as file:
        got = [json.loads(line)["labels"] for line in file]
    with open(figures, encoding="utf-8") as file:
        figures = json.load(file)
    assert [len(labels) for labels in want] == [len(labels) for labels in got]
    pieces = (lambda labels: set(map(tuple, get_entities(labels)))) if get_entities else cut
    there, guessed = ({(s, *e) for s, labels in enumerate(side) for e in pieces(labels)} for side in (want, got))
    bad = 0
    rows = [{"type": None, "entities": len(there), "predicted": len(guessed), "correct": len(there & guessed),
             **{name: figures[f"entity_{name}"] for name in ("precision", "recall", "f1")}}] + figures["entities"]
    for row in rows:
        counts = [len({e for e in side if row["type"] in (None, e[1])}) for side in (there, guessed, there & guessed)]
        precision, recall = counts[2] / max(counts[1], 1), counts[2] / max(counts[0], 1)
        f1 = 2 * precision * recall / (precision + recall) if counts[2] else 0
        close = all(abs(a - b) < 1e-12 for a, b in zip((precision, recall, f1), (row["precision"], row["recall"], row["f1"])))
        bad += not close or counts != [row["entities"], row["predicted"], row["correct"]]
        print(f"{row['type'] or 'all'}: {counts[0]} entities, {counts[1]} predicted, {counts[2]} right, F1 {f1:.6f}, here {row['f1']:.6f}")
    bad += not 0 < len(there & guessed) < len(there) or {row["type"] for row in rows[1:]} != {e[1] for e in there}
    print(f"counted by {'seqeval' if get_entities else 'this script'}: {'as here' if not bad else 'unlike here'}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
