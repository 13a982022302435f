#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutation testing of the kernels: makes small wrong edits of the kernels and tests whether `cltrain verify` notices each one.

usage: scripts/mutate.py list [SELECTION]
       scripts/mutate.py show NUMBER
       scripts/mutate.py run PROGRAM --out DIR [SELECTION] [--devices LIST] [--jobs N] [--build DIR] [--small]
                                     [--checks PATTERN] [--again STATES]
       scripts/mutate.py report --out DIR

selection: --files GLOBS   kernel files by name, such as 'gemm_*,adam.clh'
           --kinds LIST    operator, bound, comparison, constant, removed, barrier, condition, ...
           --numbers LIST  such as 17,100-120
           --every N       each N-th mutant
           --sample N      N random mutants, drawn with --seed S (1); a larger N adds to the same draw

`run` first records which check builds which programs (DIR/DEVICE/record.log). Then it tries each mutant with the cheapest checks of the
programs that the mutant changes, then with all small cases of those programs, and, if the mutant survives, with the cases that are not
small (unless --small). It stops at the first check that fails. --checks uses only the small checks that match, like verify -t. A device
of --devices is `opencl` (the machine's default device), `ptx` (the simulated NVIDIA GPU of tests/ptx, which also reports races and
barriers that are missing; --build names the build folder that has it) or `oclgrind` (the interpreter, which also reports reads outside
of arrays; after a run on opencl). Mutants that survive on the first device are tried on the next. DIR/results.jsonl gets a line for
each mutant, and a run that was stopped continues from there; --again tries the mutants with these states again (such as survived). A mutant
that changes what no check can see is argued in tests/mutation/argued.txt.

states: killed    a check failed, or the simulated GPU reported a violated rule
        timeout   a check used ten times its time and a minute more
        refused   the compiler refused the program
        survived  all checks passed
        unused    no program of a check on these devices has the code
        same      the compiled code is the same: the mutant is equivalent
"""
import argparse
import concurrent.futures
import fnmatch
import hashlib
import itertools
import json
import os
import random
import sys
import threading
import time

import mutants
from mutant_devices import DEVICES, Trial

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
ARGUED = os.path.join(ROOT, "tests", "mutation", "argued.txt")
MOST_FIRST = 12  # checks that are tried together at first
MOST_CHANGED = 40  # programs that a survivor is tried with; more of the same kernels would compute the same


def numbers(text):
    out = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        out.update(range(int(first), int(last or first) + 1))
    return out


def selected(all_, a):
    some = [m for m in all_ if (not a.files or any(fnmatch.fnmatch(m.file, g) for g in a.files.split(",")))
            and (not a.kinds or m.kind in a.kinds.split(","))]
    if a.numbers:
        wanted = numbers(a.numbers)
        some = [m for m in some if m.number in wanted]
    some = some[::a.every]
    if a.sample:
        random.Random(a.seed).shuffle(some)
        some = some[:a.sample]
    return some


def argued(path=ARGUED):
    """{key of a mutant: why no check can notice it}"""
    out = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                key, _, why = line.strip().rpartition(" :: ")
                out[key] = why
    return out


def results_of(folder):
    """{key: the last line about it}; skips an incomplete last line, which a killed run leaves."""
    out = {}
    path = os.path.join(folder, "results.jsonl")
    if os.path.exists(path):
        for line in open(path, encoding="utf-8"):
            try:
                result = json.loads(line)
            except ValueError:
                continue
            out[result["key"]] = result
    return out


def chunks(names, size):
    return [names[i:i + size] for i in range(0, len(names), size)]


def first_checks(recorded, program, tried):
    """The cheapest checks that build no programs beyond those of this program's cheapest check: building takes long, running does not."""
    cheapest = recorded.cheapest[program]
    known, out, ms = set(cheapest.programs), [cheapest.name], cheapest.ms
    for c in recorded.by_program[program]:
        if c.name not in tried and c.name != cheapest.name and known.issuperset(c.programs) and len(out) < MOST_FIRST:
            ms += c.ms
            if ms > 500:
                break
            out.append(c.name)
    return out


def on_device(device, trial, mutant, small):
    """(state, the check or rule that noticed it) of a mutant on one device."""
    recorded = device.recorded
    near = recorded.candidates(mutant)
    changed, tried, passed = [], set(), set()
    for program in near:
        if len(changed) == 3 or (changed and len(tried) > 12):
            break
        tried.add(program)
        if recorded.changed(mutant, program):
            changed.append(program)
            first = first_checks(recorded, program, passed)
            state, what = trial.verify(mutant, first, "correct,grad", whole=True)
            if state != "survived":
                return state, what
            passed.update(first)
    if not changed:
        return ("same" if near else "unused"), ""
    for program in near:
        if len(changed) >= MOST_CHANGED:
            break
        if program not in tried and recorded.changed(mutant, program):
            changed.append(program)
    wanted = set(changed)
    checks = sorted((c for c in recorded.checks if wanted & set(c.programs) and c.name not in passed),
                    key=lambda c: (c.name.endswith("bitwise"), c.ms))
    for names in chunks([c.name for c in checks], 40):
        state, what = trial.verify(mutant, names, None)
        if state != "survived":
            return state, what
    if not small:
        kinds = {c.name.split(".")[0] + ".*[" + c.name.split("[")[1].split("]")[0] + "]" for c in checks if "[" in c.name}
        for names in chunks(sorted(kinds), 10):
            state, what = trial.verify(mutant, names, "correct,grad")
            if state != "survived":
                return state, what
    return "survived", f"{len(checks) + len(passed)} checks passed"


def judge(devices, trials, mutant, small):
    rank, best, began = ["same", "unused", "survived"], ("unused", "", ""), time.time()
    seen = []
    for device in devices:
        state, what = on_device(device, trials[device.name], mutant, small)
        seen.append(state)
        if state not in rank:
            best = state, what, device.name
            break
        if rank.index(state) >= rank.index(best[0]):
            best = state, what, device.name
    state, what, where = best
    if state == "unused" and "same" in seen:
        state = "same"
    return {"key": mutant.key, "number": mutant.number, "mutant": str(mutant), "state": state, "by": what, "device": where,
            "seconds": round(time.time() - began, 1)}


def hash_of(texts):
    return hashlib.sha256("\0".join(f"{n}\0{t}" for n, t in sorted(texts.items())).encode()).hexdigest()[:16]


def check_kernels(folder, texts):
    """Ends the program if the folder has results of other kernels, so that results are not mixed."""
    path, mine = os.path.join(folder, "kernels"), hash_of(texts)
    if os.path.exists(path) and open(path, encoding="ascii").read() != mine:
        sys.exit(f"mutate.py: {folder} has results of other kernels; take another folder, or remove it")
    with open(path, "w", encoding="ascii") as out:
        out.write(mine)


def run(a):
    all_, texts = mutants.all_mutants(ROOT)
    os.makedirs(a.out, exist_ok=True)
    check_kernels(a.out, texts)
    devices = [DEVICES[name](os.path.join(os.path.realpath(a.out), name), os.path.realpath(a.program), a.build, ROOT)
               for name in a.devices.split(",")]
    chosen = selected(all_, a)
    again, old = set(a.again.split(",")) if a.again else set(), results_of(a.out)
    todo = [m for m in chosen if m.key not in old or old[m.key]["state"] in again]
    print(f"{len(all_)} mutants, {len(chosen)} chosen, {len(todo)} to be tried", flush=True)
    for device in devices if todo else []:
        device.record(texts, a.checks)
        print(f"{device.name}: {len(device.recorded.programs)} programs of {len(device.recorded.checks)} checks", flush=True)
    lock, slots, local = threading.Lock(), itertools.count(), threading.local()

    def one(mutant):
        if not hasattr(local, "trials"):
            slot = next(slots)
            local.trials = {d.name: Trial(d, slot, texts) for d in devices}
        result = judge(devices, local.trials, mutant, a.small)
        with lock, open(os.path.join(a.out, "results.jsonl"), "a", encoding="utf-8") as out:
            out.write(json.dumps(result) + "\n")
        print(f"{result['state']:9s}{result['seconds']:7.1f} s  {mutant.number} {mutant}  {result['by'][:90]}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        for future in [pool.submit(one, m) for m in todo]:
            future.result()
    return report(a)


def report(a):
    now, why = {m.key: m for m in mutants.all_mutants(ROOT)[0]}, argued()
    results = {key: {**r, "number": now[key].number, "mutant": str(now[key])} for key, r in results_of(a.out).items() if key in now}
    count = {state: [r for r in results.values() if r["state"] == state]
             for state in ("killed", "timeout", "refused", "survived", "unused", "same")}
    told = [r for r in count["survived"] if r["key"] in why]
    open_ = [r for r in count["survived"] if r["key"] not in why]
    noticed = len(count["killed"]) + len(count["timeout"])
    print(f"{len(results)} mutants: {len(count['killed'])} killed, {len(count['timeout'])} timed out, {len(count['refused'])} refused by "
          f"the compiler, {len(count['same'])} compiled to the same code, {len(count['unused'])} in code that no check builds here, "
          f"{len(count['survived'])} survived, {len(told)} of them argued")
    if noticed + len(open_):
        print(f"{100 * noticed / (noticed + len(open_)):.1f} % of those that are not equivalent are noticed")
    for r in sorted(open_, key=lambda r: r["number"]):
        print(f"survived {r['number']} {r['mutant']}\n    {r['key'].split(' :: ')[1]}\n    {r['device']}: {r['by']}")
    for r in sorted(told, key=lambda r: r["number"]):
        print(f"argued   {r['number']} {r['mutant']}\n    {why[r['key']]}")
    return 0


def show(a):
    all_, texts = mutants.all_mutants(ROOT)
    if not 1 <= a.number <= len(all_):
        sys.exit(f"mutate.py: there is no mutant {a.number}; they are numbered from 1 to {len(all_)}")
    m = all_[a.number - 1]
    old, new = texts[m.file].split("\n"), m.apply(texts[m.file]).split("\n")
    print(f"{m.number} {m}\n{m.key}")
    for before, after in zip(old, new):
        if before != after:
            print(f"- {before}\n+ {after}")
    return 0


def list_(a):
    for m in selected(mutants.all_mutants(ROOT)[0], a):
        print(f"{m.number} {m}")
    return 0


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__.partition("usage: ")[2], add_help=False)
    parser.add_argument("--help", action="help", help=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", required=True)
    selection = argparse.ArgumentParser(add_help=False)
    for name in ("files", "kinds", "numbers"):
        selection.add_argument("--" + name)
    selection.add_argument("--every", type=int, default=1)
    selection.add_argument("--sample", type=int)
    selection.add_argument("--seed", type=int, default=1)
    commands.add_parser("list", parents=[selection]).set_defaults(do=list_)
    one = commands.add_parser("show")
    one.add_argument("number", type=int)
    one.set_defaults(do=show)
    go = commands.add_parser("run", parents=[selection])
    go.add_argument("program")
    go.add_argument("--out", required=True)
    go.add_argument("--devices", default="opencl")
    go.add_argument("--jobs", type=int, default=1)
    go.add_argument("--build", default="")
    go.add_argument("--small", action="store_true")
    go.add_argument("--checks", default="*")
    go.add_argument("--again", default="")
    go.set_defaults(do=run)
    told = commands.add_parser("report")
    told.add_argument("--out", required=True)
    told.set_defaults(do=report)
    return parser.parse_args()


if __name__ == "__main__":
    args = arguments()
    sys.exit(args.do(args))
