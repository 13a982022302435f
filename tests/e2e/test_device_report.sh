#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# scripts/device_report.sh. With a fake program: the order of the parts, both forms, the page and the index; a part that fails, one
# that hangs and one that leaves half a record affect nothing else; a stopped script leaves a complete page. Then its quick form on
# a CPU device: every part succeeds and leaves its record.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
script=$CLTRAIN_SOURCE_DIR/scripts/device_report.sh
patience=${CLTRAIN_TEST_PATIENCE:-1}

expect_code 2 "$script" --minutes soon
expect_code 2 "$script" --text missing
expect_code 2 "$script" --parts step,nothing
expect_text "there is no part 'nothing'; there are: version doctor"
expect_code 0 "$script" --list
expect_text 'verify-small tune step-bf16 torch-bf16'
expect_absent device-report

# A program that answers as cltrain on an NVIDIA GPU would, with faults on request; it records how it was called.
cat >played <<'TEXT'
#!/bin/sh
echo "|$*" >>"$CALLS"
for json in "$@"; do :; done
case "$*" in
*"$HANGS"*) [ -z "$HANGS" ] || { trap '' TERM; while :; do sleep 1; done; } ;;
esac
case "$*" in
*"$FAILS"*) [ -z "$FAILS" ] || { echo '{ "half": ' >"$json"; echo broken; exit 7; } ;;
esac
case "$*" in
devices*) printf '[\n  {\n    "spec": "0:0",\n    "name": "Small CPU",\n    "kind": "cpu",\n    "caps": [\n      "local"\n    ],\n    "quirks": []\n  },\n'
    printf '  {\n    "spec": "1:0",\n    "name": "Played H100",\n    "kind": "gpu",\n    "vendor": "NVIDIA Corporation",\n    "driver": "550.1",\n'
    printf '    "caps": [\n      "local",\n      "ptx",\n      "mma_f16",\n      "mma_bf16",\n      "wgmma"\n    ],\n    "quirks": []\n  }\n]\n' ;;
'bench step'*) printf '{\n  "step_ms": 80.5,\n  "tokens_per_s": 101760,\n  "build_s": 3.25\n}\n' >"$json" ;;
'bench gemm'*) printf '{\n  "rows": [\n    {\n      "m": 8192,\n      "n": 8192,\n      "k": 8192,\n      "ta": false,\n      "tb": true,\n      "backend": "mma",\n      "choice": "",\n      "gflops": 400000\n    }\n  ]\n}\n' >"$json" ;;
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
chmod +x played python
export CALLS=$work/calls HANGS='' FAILS=''
played() { CLTRAIN=$work/played expect_code "$@"; }


played 0 "$script" --device gpu --out whole --python "$work/python"
expect_text '^the page: '
expect_file whole/report.md whole/report.json
cp whole/report.md "$out"
expect_text '^# Played H100: device report|^# .*: device report' '^cltrain 9.9.9' '\| doctor \| ok \|' '\| capabilities \| local,ptx,mma_f16,mma_bf16,wgmma \|' \
    'found without an ICD file \| 1 \|' '\| verify-small \| 3 passed' '\| bf16 \| all \| 80.5 \| 101760 \|.* 40.2 \(0.50\) \|' \
    '\| bf16 \| without units \| 80.5 \|' '\| 8192 x 8192 x 8192 \| bf16 \| nt \| all \| mma .*\| 400000 \| 800000 \(0.50\) \|' \
    '\| bf16 \| nt \| without wgmma \| mma .*\| 800000 \(0.50\) \|' '^PyTorch: 2.9 mkl sdpa compile fused cuda'
expect_awk 'the parts are not in their order, or one is missing' '{ line = $0 } /\|tune / { tune = NR } /bench step/ && !step { step = NR } /bench step/ { steps++ }
    /bench (step|gemm).*--caps -mma_f16,-mma_bf16,-wgmma/ { simple++ } /bench gemm.*--caps -wgmma/ { mma++ } /device.timestamps=false/ { plain++ }
    END { exit !(tune && step > tune && steps == 5 && simple == 2 && mma == 1 && plain == 1 && line ~ /\|verify --device gpu/) }' calls

# One part fails and leaves half a record, one hangs and ignores SIGTERM: it is cut off after a tenth of the time. The others take a
# fraction of a second each.
: >calls
HANGS=doctor FAILS='precision.mode=f16' played 1 "$script" --device gpu --out hurt --minutes $((8 * patience)) --python "$work/none"
expect_text '^step-f16: FAILED: code 7: broken, ' '^doctor: CUT OFF: it took more than [0-9]+ s, ' '^memory: ok' '^verify: ok' '^torch-bf16: left out: PyTorch: not installed here' '^2 parts failed$'
expect_absent hurt/step-f16.json
expect_file hurt/step-f16.json.part hurt/step-f32.json hurt/verify-simple.json
cp hurt/report.md "$out"
expect_text '\| doctor \| CUT OFF: ' '\| step-f16 \| FAILED: code 7: broken \|' '\| f32 \| all \| 80.5 \|'
reject_text '\| f16 \| all \|'

# Only some parts; a time limit; a script that is stopped.
played 0 "$script" --device gpu --out some --parts devices,gemm --python "$work/none"
[ "$(cut -f1 some/.parts | tr '\n' ' ')" = 'devices gemm-bf16 gemm-bf16-mma gemm-f16 gemm-f32 gemm-bf16-simple ' ] && pass || fail "other parts ran: $(cut -f1 some/.parts)"
played 0 "$script" --device gpu --out over --minutes 0 --python "$work/none"
expect_text '^verify: left out: the time is over'
: >calls
HANGS='bench gemm' CLTRAIN=$work/played "$script" --device gpu --out stopped --python "$work/none" >"$out" 2>&1 &
process=$!
await_from $process grep -q 'bench gemm' calls
kill -TERM $process
wait $process
code=$?
if [ $code -eq 143 ]; then pass; else fail "a script that is stopped ends with code $code"; fi
cp stopped/report.md "$out"
expect_text '\| step-bf16 \| ok \|' '^## Matrix products'
for index in whole hurt over stopped; do
    expect_awk "$index/report.json is not whole" '{ n += gsub(/[{[]/, "") - gsub(/[]}]/, "") } END { exit n != 0 }' $index/report.json
done

# The real program.
"$CLTRAIN" devices 2>/dev/null | grep -q -w cpu || { note_skip 'there is no OpenCL device of type cpu'; finish; }
expect_code 0 "$script" --quick --device cpu --out report --text "$CLTRAIN_SOURCE_DIR/README.md" --python "$work/none" --minutes $((600 * patience))
for record in version devices memory verify-small verify tune gemm-f32 gemm-f16 gemm-bf16 step-f32 step-f16 step-bf16 step-bf16-unstamped ops; do
    expect_file "report/$record.json"
done
expect_file report/verify.xml report/run/metrics.jsonl
expect_awk 'a part did not go well' '{ split($0, f, "\t") } f[2] == "ok" { n++ } END { exit n != 16 }' report/.parts
cp report/report.md "$out"
expect_text '\| launch_in_row_stamped \| [0-9.]+ us' '\| compiled to \| [A-Z]' '\| 1 \| [0-9.]+ \|'
reject_text '\| - us \|'
expect_code 2 "$script" --quick --device cpu --out report
finish
