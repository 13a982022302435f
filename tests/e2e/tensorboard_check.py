#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a run folder with TensorBoard's own code and compares every scalar with metrics.jsonl as f32.

usage: tensorboard_check.py RUN...   Needs the package tensorboard. Exit code 1: something differs.
Two loaders read the files: the accumulators, and the data server that `tensorboard --logdir` starts, through its HTTP interface.
"""
import json
import math
import os
import struct
import subprocess
import sys
import time
import urllib.parse
import urllib.request

TAGS = {
    "loss": "train/loss", "accuracy": "train/accuracy", "grad_norm": "train/grad_norm", "lr": "train/lr",
    "loss_scale": "train/loss_scale", "skipped": "train/skipped", "step_ms": "speed/step_ms",
    "samples_per_s": "speed/samples_per_s", "tokens_per_s": "speed/tokens_per_s", "data_ms": "speed/data_ms",
    "comm_ms": "speed/comm_ms", "comm_exposed_ms": "speed/comm_exposed_ms", "device_busy": "device/busy",
    "h2d_gbs": "device/h2d_gbs", "d2h_gbs": "device/d2h_gbs", "device_bytes": "device/memory_bytes",
    "eval_loss": "eval/loss", "eval_accuracy": "eval/accuracy", "eval_seconds": "eval/seconds",
    "eval_top_k_accuracy": "eval/top_k_accuracy", "eval_f1": "eval/f1", "eval_dice": "eval/dice",
    "eval_mae": "eval/mae", "eval_rmse": "eval/rmse", "eval_r2": "eval/r2",
    "eval_entity_precision": "eval/entity_precision", "eval_entity_recall": "eval/entity_recall", "eval_entity_f1": "eval/entity_f1",
    "eval_pearson": "eval/pearson", "eval_spearman": "eval/spearman",
    "eval_perplexity": "eval/perplexity", "eval_bits_per_byte": "eval/bits_per_byte",
}
SILENCE = 600 * int(os.environ.get("CLTRAIN_TEST_PATIENCE", "1"))  # seconds in which a server that works has something new
ALWAYS = {"loss", "grad_norm", "lr", "loss_scale", "eval_loss"}  # null: a point that is not finite


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def wanted(run):
    points = {}
    with open(os.path.join(run, "metrics.jsonl")) as lines:
        for line in lines:
            record = json.loads(line)
            if "event" in record:
                continue
            for key, tag in TAGS.items():
                if key in record and (record[key] is not None or key in ALWAYS):
                    value = None if record[key] is None else f32(record[key])
                    points.setdefault(tag, []).append((record["step"], value))
    return points


def compare(who, want, got):
    bad = 0
    for tag, points in want.items():
        found = got.get(tag, [])
        if [step for step, _ in found] != [step for step, _ in points]:
            print(f"{who}: {tag}: {len(found)} points at other steps than the {len(points)} of metrics.jsonl")
            bad += 1
            continue
        for (step, a), (_, b) in zip(points, found):
            if not (math.isfinite(b) and f32(b) == a if a is not None else not math.isfinite(b)):
                print(f"{who}: {tag} at step {step}: {b} instead of {a}")
                bad += 1
                break
    extra = set(got) - set(want)
    if extra:
        print(f"{who}: tags that metrics.jsonl does not have: {sorted(extra)}")
    print(f"{who}: {len(got)} tags, {sum(map(len, got.values()))} points, {bad + len(extra)} wrong")
    return bad + len(extra)


def by_accumulators(run):
    from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
    from tensorboard.util import tensor_util

    old = event_accumulator.EventAccumulator(run, size_guidance={"scalars": 0})
    old.Reload()
    first = {tag: [(e.step, e.value) for e in old.Scalars(tag)] for tag in old.Tags()["scalars"]}
    new = plugin_event_accumulator.EventAccumulator(
        run, size_guidance={"tensors": 0}, tensor_size_guidance={"scalars": 0, "text": 0, "histograms": 0})
    new.Reload()
    second, plugins = {}, set()
    for tag in new.Tags()["tensors"]:
        plugin = new.SummaryMetadata(tag).plugin_data.plugin_name
        plugins.add(plugin)
        if plugin == "scalars":
            second[tag] = [(e.step, float(tensor_util.make_ndarray(e.tensor_proto))) for e in new.Tensors(tag)]
        if plugin == "histograms":
            for event in new.Tensors(tag):
                assert tensor_util.make_ndarray(event.tensor_proto).shape[1] == 3
    for plugin in ("text", "hparams"):
        assert plugin in plugins, f"nothing for the plugin {plugin}"
    return first, second


def by_server(folder, name, fast, points):
    port = 20000 + os.getpid() % 20000 + fast
    server = subprocess.Popen(
        [sys.executable, "-m", "tensorboard.main", "--logdir", folder, "--port", str(port), "--load_fast",
         "true" if fast else "false", "--samples_per_plugin", "scalars=10000000,text=10000"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def get(path, body=None):
        request = urllib.request.Request(f"http://localhost:{port}/data/{path}", data=body,
                                         headers={"Content-Type": "application/json"})
        return json.loads(urllib.request.urlopen(request, timeout=SILENCE).read())

    def scalars():
        tags = get("plugin/scalars/tags").get(name, {})
        return {tag: [(p[1], float(p[2])) for p in
                      get("plugin/scalars/scalars?" + urllib.parse.urlencode({"run": name, "tag": tag}))]
                for tag in tags}

    try:
        got, news = {}, time.monotonic()
        while server.poll() is None and time.monotonic() - news < SILENCE:
            try:
                before, got = got, scalars()
                if sum(map(len, got.values())) == points:
                    break
                if got != before:
                    news = time.monotonic()
            except OSError:
                pass
            time.sleep(0.5)
        groups = get("plugin/hparams/session_groups", json.dumps({
            "colParams": [], "startIndex": 0, "sliceSize": 100,
            "allowedStatuses": ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"]}).encode())
        names = [group["name"] for group in groups["sessionGroups"]]
        assert name in names, f"the hyper-parameters of {name} are not shown: {names}"
        return got
    finally:
        server.terminate()
        server.wait()


def main():
    bad = 0
    for run in sys.argv[1:]:
        want = wanted(run)
        first, second = by_accumulators(run)
        bad += compare("EventAccumulator", want, first)
        bad += compare("plugin EventAccumulator", want, second)
        folder, name = os.path.split(os.path.abspath(run))
        points = sum(map(len, want.values()))
        for fast in (True, False):
            bad += compare(f"tensorboard --load_fast={str(fast).lower()}", want, by_server(folder, name, fast, points))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
