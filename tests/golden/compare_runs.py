#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small models trained on the bytes of a text, beside PyTorch, by each optimizer of a list: the losses of the evaluation after the last
step, with three seeds, lie within the mean and three standard deviations of PyTorch's, with SEEDS seeds of its own.

    compare_runs.py CLTRAIN TEXT FOLDER llama|bert STEPS SEEDS

CLTRAIN is the program, TEXT a text whose first nine tenths are trained on, FOLDER an empty folder to work in. The models and their recipes
stand in peer_llama.py and peer_bert.py. Each side draws its own initial weights and samples, so that nothing is shared but the recipe. Two
checks keep the comparison honest: PyTorch evaluates cltrain's last weights to cltrain's own loss, and PyTorch at half the learning rate, a
mistake that is put in, is found outside. After 1000 steps the second check fails for the BERTs, and for the Llamas by Lion and LAMB, since
their seeds differ by as much as half the rate costs. Needs torch, numpy and transformers; the tests test_peer_losses_runs and test_peer_losses_bert run it where
CLTRAIN_TEST_PYTHON names a Python that has them."""
import importlib
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peer_training import finish, report_spread  # noqa: E402

torch.set_num_threads(1)
SEEDS = 3  # of cltrain


def told(figures):
    return " and ".join(f"{value:.4f}" for value in figures)


def compare(peer, name, steps, seeds):
    mine, runs, peers = [], [], []
    for seed in range(1, seeds + 1):
        figures, losses = peer.theirs(name, seed)
        peers.append(figures)
        print(f"     {name}, PyTorch, seed {seed}: step 1 {losses[0]:.3f}, last 20 steps {losses[-20:].mean():.3f}, evaluation {told(figures)}",
              flush=True)
    for seed in range(1, SEEDS + 1):
        figures, losses, last = peer.ours(name, seed)
        mine.append(figures)
        runs.append(last)
        print(f"     {name}, cltrain, seed {seed}: step 1 {losses[0]:.3f}, last 20 steps {losses[-20:].mean():.3f}, evaluation {told(figures)}",
              flush=True)
    peer.check(name, runs)
    for at, figure in enumerate(peer.figures):
        report_spread(f"{name}: {figure} after {steps} steps", [f[at] for f in mine], [f[at] for f in peers])
    slow, _ = peer.theirs(name, seeds + 1, 0.5)
    report_spread(f"{name}: half the learning rate is seen", [slow[0]], [f[0] for f in peers], inside=False)


def main():
    cltrain, text = (os.path.abspath(p) for p in sys.argv[1:3])
    os.chdir(sys.argv[3])
    steps, seeds = int(sys.argv[5]), int(sys.argv[6])
    peer = importlib.import_module("peer_" + sys.argv[4]).Peer(cltrain, text, steps)
    for name in peer.recipes:
        compare(peer, name, steps, seeds)
    finish()


main()
