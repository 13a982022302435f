#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Writes docs/cli.md to the standard output: every command with the help that the program prints.
# tests/e2e/test_docs.sh checks that the page is up to date.
#
# usage: scripts/cli_page.sh PROGRAM >docs/cli.md
set -eu
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"
program=${1:?usage: scripts/cli_page.sh PROGRAM >docs/cli.md}

section() { # words of the command
    printf '\n## %s\n\n' "$*"
    "$program" "$@" --help | sed -e 's/[[:space:]]*$//' -e 's/^\(.\)/    \1/'
}

cat <<'TEXT'
# Commands

Written by `scripts/cli_page.sh`, which has the table below; all that follows the table is the program's own
help. Change the script and the commands in `cli/`, not this page. Values may follow an option after a space
or `=`; `--` ends the options.

| command | does |
|---|---|
| `train CONFIG [key=value …] [--out DIR] [--resume auto\|DIR\|none] [--init PATH] [--device SPEC] [--max-steps N] [--dry-run] [--profile]` | trains |
| `new FILE\|FOLDER [TARGETS] [key=value …] [--out FILE] [--target COLUMN] [--json-key NAME] [--tokenizer PATH]` | looks at data and writes a config that trains on it |
| `import FOLDER --out CONFIG` | writes a config that starts from a folder of `transformers`, and checks that its weights, tokenizer and `config.json` belong together ([pretrained.md](pretrained.md)) |
| `launch [--devices all\|N] [--max-restarts N] CONFIG …` | `train` on several devices of this host, started again after failures: [cluster.md](cluster.md) |
| `sweep SWEEP\|FOLDER [--out FOLDER] [--workers N] [--device SPEC,…] [--again] [--dry-run] [--table] [--json]` | trains with several values of keys (grid, random, successive halving), alone or with workers on other machines, and names the best run: [sweeps.md](sweeps.md) |
| `eval RUN [--on train] [--best] [--classes] [--confusion FILE] [--json FILE]` | loss, accuracy, top-5, confusion matrix, precision, recall, F1 and Dice of classes on the evaluation data; also `eval CONFIG --checkpoint RUN \| --init PATH`, or of a CONFIG with `model.init` |
| `predict RUN [FILE…] [--input FILE\|-] [--out FILE] [--top-k K]` | probabilities of a classifier, values of a regression: [docs/predict.md](predict.md) |
| `generate RUN\|FOLDER [--prompt TEXT] [--max-new N] [--temperature X] [--top-k K] [--top-p P] [--seed N] [--logits FILE]` | continues a text, or writes the logits of its tokens; FOLDER: what `save_pretrained` wrote |
| `export RUN --out PATH [--format hf\|gguf\|peft\|safetensors] [--merge] [--dtype f32\|f16\|bf16\|q8_0] [--weights averaged\|raw]` | a folder that `transformers` loads, the adapters alone for PEFT, or the weights as one safetensors file; needs no device, but `--merge` compares the merged model with base and adapters where there is one ([pretrained.md](pretrained.md)) |
| `report RUN… [--out FILE] [--title T]` | what happened in a run, or in up to 8 laid over each other (of a sweep the best), as one HTML page: [report.md](report.md) |
| `data fetch [NAME] [--out DIR] [--from PATH]` | loads a published data set (mnist, fashion-mnist, cifar10, tinyshakespeare …) into `data/NAME`, verified |
| `compare RUN_A RUN_B… [--json \| --csv] [--tolerance PERCENT]` | results, config keys that differ, and the step from which losses diverge |
| `ckpt show\|verify\|diff PATH…` | the tensors of a checkpoint or of weights; whether it is intact; how two differ ([checkpoints.md](checkpoints.md#looking-into-checkpoints)) |
| `ckpt ls RUN\|s3://…` | the checkpoints of a run, in its folder or in object storage: step, files, size, whether complete, the best one |
| `ckpt get\|gc s3://…` | checkpoints in object storage: fetch one, delete what is of no use ([storage.md](storage.md)) |
| `watch RUN [--once]` | follows a run from another terminal, with curves of characters |
| `top [--once] [--json]` | what this host's devices and runs do, again each second: [monitoring.md](monitoring.md#this-hosts-devices-and-runs) |
| `data prepare TEXT… --out DIR [--train-bpe N \| --tokenizer PATH]` | text files → token shards |
| `data prepare FOLDER --out FILE [--resize N] [--skip-bad]` | a folder of images, `CLASS/name.jpg` → one file |
| `data show CONFIG\|FOLDER\|FILE --out PAGE.html` | a page of augmented samples: images with their classes, volumes as slices with their masks |
| `data verify PATH…\|CONFIG` | reads and checks all data |
| `devices [--json]` | devices, with the capabilities that probe kernels proved |
| `doctor` | why there is no device: ICD files, libraries, permissions, by name; which drivers cltrain added itself |
| `plan CONFIG [--full] [--json]` | memory, batch, steps and a table of layers on the device that would train; `--full`: commands and memory map |
| `estimate CONFIG [--for CARDS] [--json]` | memory by class on that device, and the largest micro-batch that fits; time and price on cards to rent: [cloud.md](cloud.md) |
| `bench gemm\|memory\|ops\|step CONFIG\|build CONFIG [--json FILE] [--compare FILE]` | measures this device |
| `tune [CONFIG] [--seconds S] [--list \| --clear] [--json FILE]` | measures which kernels are fastest on this device, and records it: [tuning.md](tuning.md) |
| `ops [NAME] [--json]` | what can be a layer of `model.layers`: formula, inputs, attributes, an example |
| `verify [-t PATTERN] [--mode …] [--caps MASK] [--quick] [--device SPEC\|all] [--json FILE] [--baseline FILE] [--reduce DIR] [--seconds S] [--run RUN] [--junit FILE]` | the checker; `--run RUN` trains steps of a run again; both beside earlier results: [drivers.md](drivers.md#the-same-device-as-before) |
| `config --schema \| --markdown \| --print CONFIG` | the keys; a config with all defaults filled in |
| `demo` | trains a small GPT on real text of this machine and samples from it |
| `cache [NAME…] [--clear] [--all] [--json]` | lists the cache folders with their sizes; clears them |
| `completion bash\|zsh\|fish` | the script that completes commands, options, keys and files in a shell; installed with the program |
| `man` | the manual page; after the installation `man cltrain` |
| `version [--json]` | versions of everything involved |
TEXT
"$program" help | sed -n '/^usage/,/^first steps/s/^  \([a-z]*\)  .*/\1/p' | while read -r command; do
    [ "$command" = help ] || section "$command"
    # The parts of a command, if it has any.
    for part in $("$program" "$command" --help | sed -n '/^usage: .* PART/,$ s/^  \([a-z]*\)  .*/\1/p'); do
        section "$command" "$part"
    done
done
