#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
# ctest-optimise: no
#
# scripts/device_report.sh. With a fake program: the order of the parts, the page, the index and the
# archives; a part that fails, one that hangs and one that leaves half a record affect nothing else; a
# stopped script leaves a complete page, and another call measures what is missing; without a device only
# the facts are collected. Then its quick form on a CPU device: every part succeeds and leaves its record.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
script=$CLTRAIN_SOURCE_DIR/scripts/device_report.sh
patience=${CLTRAIN_TEST_PATIENCE:-1}

expect_code 2 "$script" --minutes soon
expect_code 2 "$script" --text missing
expect_code 2 "$script" --parts step,nothing
expect_text "there is no part 'nothing'; there are: host version devices"
expect_code 0 "$script" --list
expect_text '^devices 120 ' '^step 60 '
expect_awk 'the limits of the parts before the first step leave it less than 3 minutes' '$1 == "step" { exit sum > 180 } { sum += $2 }' "$out"
expect_absent device-report

# A program that answers as cltrain on an NVIDIA GPU would, with faults on request; it records how it was called.
cat >simulated <<'TEXT'
#!/bin/sh
echo "|$*" >>"$CALLS"
for json in "$@"; do :; done
case "$*" in
*"$HANGS"*) [ -z "$HANGS" ] || { trap '' TERM; while :; do sleep 1; done; } ;;
esac
case "$*" in
*"$KILLED"*) [ -z "$KILLED" ] || kill -KILL $$ ;;
esac
case "$*" in
*"$FAILS"*) [ -z "$FAILS" ] || { echo '{ "half": ' >"$json"; echo broken; exit 7; } ;;
esac
case "$*" in
devices*) printf '[\n  {\n    "spec": "0:0",\n    "name": "Small CPU",\n    "kind": "cpu",\n    "caps": [\n      "local"\n    ],\n    "quirks": []\n  },\n'
    printf '  {\n    "spec": "1:0",\n    "name": "Simulated H100",\n    "kind": "gpu",\n    "vendor": "NVIDIA Corporation",\n    "driver": "550.1",\n'
    printf '    "caps": [\n      "local",\n      "ptx",\n      "mma_f16",\n      "mma_bf16",\n      "wgmma"\n    ],\n    "quirks": []\n  }\n]\n' ;;
'bench build'*) echo '31 programs in 4.20 s, 0 refused, 0 with spills'
    printf '{\n  "programs": [\n    {\n      "kernel": "attention_mma_fwd",\n      "seconds": 1.25,\n      "registers": 229,\n      "spilled_bytes": 0,\n      "static_local_bytes": 49152\n    }\n  ]\n}\n' >"$json" ;;
'bench step'*) printf '{\n  "device": "Simulated H100",\n  "step_ms": 80.5,\n  "tokens_per_s": 101760,\n  "build_s": 3.25\n}\n' >"$json" ;;
'bench gemm'*) printf '{\n  "rows": [\n    {\n      "m": 8192,\n      "n": 8192,\n      "k": 8192,\n      "ta": false,\n      "tb": true,\n      "dtype": "bf16",\n      "backend": "mma",\n      "choice": "",\n      "gflops": 400000\n    }\n  ]\n}\n' >"$json" ;;
verify*) echo '3 passed, 0 failed, 0 skipped'; echo '{}' >"$json" ;;
doctor) echo "note   the NVIDIA driver library X is present, but no ICD file names it; cltrain made an entry for it" ;;
version*) printf '{\n  "version": "9.9.9"\n}\n' ;;
esac
exit 0
TEXT
cat >python <<'TEXT'
#!/bin/sh
case "$*" in
*--probe*) echo '2.9 mkl sdpa compile fused cuda' ;;
*matmul*) echo '{"gflops": 800000.0, "torch": "2.9"}' ;;
*) echo 'a message before it'; echo '{"mode": "compile", "step_ms": 40.25, "torch": "2.9"}' ;;
esac
TEXT
chmod +x simulated python
export CALLS=$work/calls HANGS=nothing FAILS=nothing KILLED=nothing
simulated() { CLTRAIN=$work/simulated expect_code "$@"; }


simulated 0 "$script" --device gpu --out whole --pack packed --python "$work/python"
expect_text '^the page: ' '^step +ok +[0-9]+ s  80.5 ms, 101760 tokens/s' '^torch +ok .*cltrain has 0.50 of its speed' '^build +ok .*31 programs'
expect_file whole/report.md whole/report.json packed/report.md packed/report.json packed/logs.tgz packed/ptx.tgz packed/cache.tgz packed/crash.tgz
tar -tzf packed/logs.tgz >"$out" || fail 'logs.tgz is not whole'
expect_text '^step.txt' '^gemm.json' '^host.txt'
cp whole/report.md "$out"
expect_text '^# Simulated H100: device report' '^cltrain 9.9.9' '\| doctor \| ok' '\| capabilities \| local,ptx,mma_f16,mma_bf16,wgmma \|' \
    'found without an ICD file \| 1 \|' '\| verify-quick \| ok: 3 passed' '\| bf16 \| as a training runs it \| 80.5 \| 101760 \|' \
    '\| bf16 \| without wgmma \| 80.5 \|' '\| bf16 \| PyTorch 2.9 mkl sdpa compile fused cuda \| 40.2 \|' '\| attention_mma_fwd \| 1.250 \| 229 \| 0 \| 49152 \|' \
    '\| 8192 x 8192 x 8192 \| bf16 \| nt \| all \| mma .*\| 400000 \|' '\| bf16 \| nt \| without wgmma \| mma '
expect_awk 'the parts are not in their order, one is missing, or the first step is profiled' '/bench step/ && !step { step = NR; plain = !/--profile/ } /bench step/ { steps++ }
    /\|devices/ { devices = NR } /bench build/ { build = NR } /verify .*--quick/ { verify = NR } /bench (step|gemm).*--caps -wgmma/ { mma++ } /\|tune / { tune = NR }
    END { exit !(plain && devices < step && step < build && build < verify && verify < tune && steps == 5 && mma == 2) }' calls

# The page in docs/measurements.md: it is the last section of the GPU chapter; the second time it replaces
# itself, and nothing else changes.
printf '# Results\n\n## GPU\n\nFirst.\n\n### Counts\n\n| 1 |\n\n## After\n\nLast.\n' >results.md
expect_code 0 "$CLTRAIN_SOURCE_DIR/scripts/gpu_results.sh" whole/report.md results.md
cp results.md once.md
expect_awk 'the section is not where it belongs' '/^## GPU$/ { gpu = NR } /^### Counts$/ { counts = NR } /^### On Simulated H100$/ { on = NR } /^#### Training step, GPT-2/ { step = NR }
    /^## After$/ { after = NR } /^## / { chapters++ } END { exit !(gpu && gpu < counts && counts < on && on < step && step < after && chapters == 2) }' results.md
expect_code 0 "$CLTRAIN_SOURCE_DIR/scripts/gpu_results.sh" whole/report.md results.md
if cmp once.md results.md; then pass; else fail 'the same page is there a second time, or something else changed'; fi
sed -e '/^### On /,/^## After/{ /^## After/!d }' results.md >without.md
printf '# Results\n\n## GPU\n\nFirst.\n\n### Counts\n\n| 1 |\n\n## After\n\nLast.\n' | cmp - without.md && pass || fail 'the rest of the page changed'
expect_code 2 "$CLTRAIN_SOURCE_DIR/scripts/gpu_results.sh" results.md results.md
expect_text 'its first line names no device'
expect_code 2 "$CLTRAIN_SOURCE_DIR/scripts/gpu_results.sh"

# Another call has nothing to do; with --full it runs only the long parts.
: >calls
simulated 0 "$script" --device gpu --out whole --python "$work/python"
[ "$(cat calls)" = '|version' ] && pass || fail "parts were repeated: $(cat calls)"
simulated 0 "$script" --device gpu --out whole --full --python "$work/python"
expect_awk 'not only the long parts ran' '/--caps -mma_f16,-mma_bf16,-wgmma/ { simple++ } /verify/ { verify++ } /--quick|\|devices/ { again++ } END { exit !(simple == 3 && verify == 3 && !again) }' calls

# One part fails and leaves half a record, one hangs and ignores SIGTERM: the script ends it at its limit,
# or earlier if less time is left. The next call repeats both of them and nothing else.
: >calls
HANGS=doctor FAILS='bench memory' simulated 1 "$script" --device gpu --out hurt --python "$work/none"
expect_text '^memory: FAILED: code 7: broken, ' '^doctor: TIMED OUT: it took more than 20 s, ' '^step: ok' '^ops: ok' '^torch: left out: PyTorch: not installed here' '^2 parts failed$'
expect_absent hurt/memory.json
expect_file hurt/memory.json.part hurt/step.json
cp hurt/report.md "$out"
expect_text '\| doctor \| TIMED OUT: ' '\| memory \| FAILED: code 7: broken \|' '\| bf16 \| as a training runs it \| 80.5 \|'
: >calls
simulated 0 "$script" --device gpu --out hurt --python "$work/none"
expect_awk 'other parts than the two were repeated' '{ all = all $1 " " } END { exit all != "|version |doctor |bench " }' calls

KILLED='bench memory' simulated 1 "$script" --device gpu --out killed --parts memory,doctor --python "$work/none"
expect_text '^memory: FAILED: it was killed' '^doctor: ok'

# Only some parts; no time left; no device; a script that is stopped, and continued.
simulated 0 "$script" --device gpu --out some --parts devices,gemm --python "$work/none"
[ "$(cut -f1 some/.parts | tr '\n' ' ')" = 'devices gemm gemm-mma ' ] && pass || fail "other parts ran: $(cut -f1 some/.parts)"
simulated 0 "$script" --device gpu --out over --minutes 0 --python "$work/none"
expect_text '^ops: left out: the time is over'
: >calls
simulated 1 "$script" --device accelerator --out lacking --python "$work/none"
expect_text "^there is no device 'accelerator' that works: the other parts are left out"
grep -q 'bench step' calls && fail 'a step was measured without a device' || pass
: >calls
FAILS='devices --json' simulated 1 "$script" --device gpu --out crashed --python "$work/none"
expect_text '^devices: FAILED' '^step-plain: ok' '^step: ok'
: >calls
HANGS='bench gemm' CLTRAIN=$work/simulated "$script" --device gpu --out stopped --pack stopped-pack --python "$work/none" >"$out" 2>&1 &
process=$!
await_from $process grep -q 'bench gemm' calls
kill -TERM $process
wait $process
code=$?
if [ $code -eq 143 ]; then pass; else fail "a script that is stopped ends with code $code"; fi
expect_file stopped-pack/logs.tgz
cp stopped/report.md "$out"
expect_text '\| step \| ok' '^## Matrix products'
: >calls
simulated 0 "$script" --device gpu --out stopped --python "$work/none"
expect_awk 'it did not go on where it was stopped' '/bench gemm/ && !first { first = NR } /bench step/ { steps++ } /bench build|\|devices/ { again++ } END { exit first != 2 || steps != 3 || again }' calls
[ "$(cut -f1,2 stopped/.parts | grep -c -P '\tok$')" -eq 17 ] && pass || fail "not all parts are done: $(cat stopped/.parts)"

# A folder is not continued for another device or other sizes; without tuning there is no tuned step.
simulated 2 "$script" --device gpu --out stopped --quick --python "$work/none"
expect_text 'holds a report of: device gpu, whole sizes.* this is: device gpu, tiny sizes'
: >calls
FAILS='tune ' simulated 1 "$script" --device gpu --out untuned --parts devices,tune,step --python "$work/none"
expect_text '^step-tuned: left out: nothing was tuned'
expect_awk 'an untuned step used tuning records' '/bench step/ && !/device.tune=off/ { bad++ } END { exit bad }' calls
for index in whole hurt over stopped; do
    expect_awk "$index/report.json is not whole" '{ n += gsub(/[{[]/, "") - gsub(/[]}]/, "") } END { exit n != 0 }' $index/report.json
done

# The real program.
"$CLTRAIN" devices 2>/dev/null | grep -q -w cpu || { note_skip 'there is no OpenCL device of type cpu'; finish; }
expect_code 0 "$script" --quick --full --device cpu --out report --text "$CLTRAIN_SOURCE_DIR/README.md" --python "$work/none" --minutes $((600 * patience)) --scale $((10 * patience))
for record in version devices memory build verify-quick verify-small verify tune gemm gemm-f32 gemm-f16 step step-profile step-tuned step-large step-f32 step-f16 ops ops-all; do
    expect_file "report/$record.json"
done
expect_file report/verify.xml report/run/metrics.jsonl report/trace.json report/build/000-*.log
expect_awk 'a part did not go well' '{ split($0, f, "\t") } f[2] == "ok" { n++ } END { exit n != 22 }' report/.parts
cp report/report.md "$out"
expect_text '\| launch_in_row_event \| [0-9.]+ us' '\| launch_in_row_stamped \| [0-9.]+ us' '\| compiled to \| [A-Z]' '\| 1 \| [0-9.]+ \|' '^## Programs'
reject_text '\| - us \|'
finish
