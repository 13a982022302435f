#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes cli/verify/trajectory_curves.h, the recorded losses of `cltrain verify --trajectory`, from a run of it:

    CLTRAIN_STYLE=groups cltrain verify --trajectory --json FILE
    scripts/make_trajectory_curves.py FILE >cli/verify/trajectory_curves.h

Run it after a change of a model, its data or the random numbers of trainings; no other change may change these losses."""
import json
import sys


def rows(numbers):
    line = ""
    for number in numbers:
        text = "%.9g," % number
        if len(line) + len(text) > 100:
            yield line.rstrip()
            line = ""
        line += text + " "
    yield line.rstrip()


def curves(run):
    """The rows of the table, one string for each training."""
    for result in run["results"]:
        if "losses" not in result or len(result["losses"]) != 50 or None in result["losses"] + result["gradient_norms"]:
            sys.exit("%s has no 50 losses and norms" % result["name"])
        text = '    {"%s",' % result["name"].removesuffix("/trajectory")
        for key, end in (("losses", "},"), ("gradient_norms", "}},")):
            text += "\n     {" + "\n      ".join(rows(result[key]))[:-1] + end
        yield text


def main():
    if len(sys.argv) != 2:
        print("usage: scripts/make_trajectory_curves.py FILE >cli/verify/trajectory_curves.h", file=sys.stderr)
        sys.exit(2)
    with open(sys.argv[1], encoding="utf-8") as file:
        run = json.load(file)
    table = "\n".join(curves(run))
    device = run["devices"][0]
    print("""/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses and norms of gradients of the trainings of verify --trajectory, step by step, as recorded on
 * %s, driver %s,
 * kernels for GPUs (CLTRAIN_STYLE=groups). Written by scripts/make_trajectory_curves.py. */
#ifndef CLI_VERIFY_TRAJECTORY_CURVES_H
#define CLI_VERIFY_TRAJECTORY_CURVES_H

#include "cli/verify/trajectory_models.h"

typedef struct trajectory_curve {
    const char *name; /* of the training */
    double loss[TRAJECTORY_STEPS], norm[TRAJECTORY_STEPS];
} trajectory_curve;

/* clang-format off */
static const trajectory_curve trajectory_curves[] = {
%s
};
/* clang-format on */

#endif""" % (device["device_name"], device["driver"], table))


main()
