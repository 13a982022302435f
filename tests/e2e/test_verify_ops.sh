#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-parts: attention attention_half gemm gemm_more batch_norm entropy losses conv pools pointwise device rest
# ctest-cost: 55
#
# The checker's small cases on the default device, in every mode: nothing fails, every name on the list has
# a result, and every op has at least one check. Compiling takes nearly all of the time, so the list is
# divided into parts that keep cases which share programs together, each checked by one worker; the part
# `rest` has every case that no line below names, so that a new op is never left out.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$CLTRAIN" devices >/dev/null 2>&1 || skip_all "there is no OpenCL device"

part_of() { # SUBJECT.CASE
    case $1 in
    atomics.* | builtins.* | groups.* | memory.*) echo device ;;
    attention.*16*) echo attention_half ;;
    attention.*) echo attention ;;
    gemm.windows* | gemm.moments* | gemm.dact* | gemm.batch* | gemm.*16* | gemm.*vectors*) echo gemm_more ;;
    gemm.*) echo gemm ;;
    batch_norm.*) echo batch_norm ;;
    cross_entropy.*) echo entropy ;;
    linear_cross_entropy.* | bce_with_logits.* | mse.* | l1.* | dice_loss.* | log_softmax.* | softmax.*) echo losses ;;
    conv*) echo conv ;;
    *pool.* | upsample.* | layernorm.* | rmsnorm.*) echo pools ;;
    add.* | bias.* | cast.* | dropout.* | gelu.* | multiply.* | relu.* | rotary.* | scale.* | sigmoid.* | silu.* | slice.* | tanh.*) echo pointwise ;;
    *) echo rest ;;
    esac
}

"$CLTRAIN" verify --small --mode list >names
expect_awk "the list of names is short or has doubles" '{ n++; bad += seen[$0]++ } END { exit n < 300 || bad }' names
sed 's/[[/].*//' names | uniq | while read -r name; do [ "$(part_of "$name")" != "${part:?name a part}" ] || echo "$name"; done >cases
expect_file cases # no case belongs to the part otherwise

export CLTRAIN_BUILDERS=1 # other parts keep the other cores busy
expect_code 0 "$CLTRAIN" verify --small --jobs 1 -t "$(paste -s -d, cases)" --json results.json --junit results.xml
expect_text 'seed [0-9]+' '^[0-9]+ passed, 0 failed, [0-9]+ skipped$'
awk 'NR == FNR { mine[$0]; next } { name = $0; sub(/[[\/].*/, "", name) } name in mine' cases names >wanted
sed -n -E 's/^ *"name": "(.*)",$/\1/p' results.json >checked
expect_same wanted checked
expect_awk 'results.xml does not hold every result' 'NR == FNR { n++; next } /<testcase / { n-- } END { exit n != 0 }' wanted results.xml
expect_awk 'of some op all checks were skipped' '
    /"name": / { subject = $2; gsub(/^"|\..*/, "", subject); checked[subject] += 0 }
    /"state": "PASS"/ { checked[subject]++ }
    END { for (s in checked) if (checked[s] == 0) { print s; bad = 1 } exit bad }' results.json
finish
