#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Wrong edits of kernels, one line each, and the check that must notice: the checker runs on a copy of the kernels with one of them
# changed (CLTRAIN_KERNEL_DIR) and must fail the op that uses the line. An edit that changes nothing any more is a failure, too, so
# that the list keeps up with the kernels. MUTATIONS=PATTERN takes only the edits whose line matches. ctest-labels: full
. "${CLTRAIN_SOURCE_DIR:?}/tests/e2e/lib.sh"

# file :: sed expression :: checks that are run :: op that must fail
list() {
    cat <<'END'
update.cl :: s/value -= step \*/value += step */ :: update.adam[lane] :: update
update.cl :: s/value -= step \*/value += step */ :: update.adam[group] :: update
update.cl :: s|/ root2 + eps|/ (root2 + eps)| :: update.adamw[lane] :: update
update.cl :: s/1\.0f - lr \* decay/1.0f - decay/ :: update.adamw[group] :: update
update.cl :: s|float step = lr / as_float(st\[ST_CORRECTION1\])|float step = lr| :: update.adam[group] :: update
update.cl :: s/d \* d, beta2 \* v1/d * d, v1/ :: update.adam[lane] :: update
update.cl :: s/row == interval/row > interval/ :: update.scale[lane] :: update
update.cl :: s/fmax(product(scale, backoff, backoff_rest), minimum)/product(scale, backoff, backoff_rest)/ :: update.scale[lane] :: update
update.cl :: s/product(scale, growth, growth_rest)/scale * growth/ :: update.scale[lane] :: update
update.cl :: s/isfinite(grown) ? grown : scale/grown/ :: update.scale_limit[lane] :: update
update.cl :: s/isfinite(norm) \&\& isfinite(loss)/isfinite(norm)/ :: update.adamw[lane] :: update
update.cl :: s/losses\[lo + 4 \* i\]/losses[lo + i]/ :: update.adamw[lane] :: update
update.cl :: s/ || st\[ST_SKIP\])/)/ :: update.nesterov[group] :: update
update.cl :: s/good ? 0u : st\[ST_SKIPPED_ROW\] + 1u/good ? 0u : 1u/ :: update.scale[lane] :: update
update.cl :: s/min(update, entries - 1u)/min(update, entries - 2u)/ :: update.adam[lane] :: update
update.cl :: s/PUT_WORKING(base + i, value)/PUT_WORKING(i, value)/ :: update.momentum[group] :: update
update.cl :: s/(norm + 1e-6f)/norm/ :: update.clip_small[lane] :: update
update.cl :: s/fmin(max_norm/fmax(max_norm/ :: update.adamw[lane] :: update
update.cl :: s/clt_sum16(sum) + compensated_sum(partial + c, n - c, 1)/clt_sum16(sum)/ :: update.spans[lane] :: update
update.cl :: s/first + NORM_CHUNKS)/first + NORM_CHUNKS - 1)/ :: update.spans[group] :: update
update.cl :: s/d = fma((REALS)(momentum), buf, d)/d = buf/ :: update.nesterov[lane] :: update
update.cl :: s/table\[to + 2 \* (ulong)chunk + 1\]/table[to + 1]/ :: update.nesterov[group] :: update
lanes.clh :: s/(u + 0x7fffu + ((u >> 16) \& 1u)) >> 16/(u + 0x8000u) >> 16/ :: known.bf16_by_16 :: known
quads.clh :: s/(u + 0x7fffu + ((u >> 16) \& 1u)) >> 16/(u + 0x8000u) >> 16/ :: known.bf16_by_4 :: known
quads.clh :: s/vstorea_half4_rte/vstorea_half4_rtz/ :: known.f16_by_4 :: known
lanes.clh :: s/vstore_half16_rte/vstore_half16_rtz/ :: known.f16_by_16 :: known
common.clh :: s/(u + 0x7fffu + ((u >> 16) \& 1u)) >> 16/(u + 0x8000u) >> 16/ :: known.bf16 :: known
lanes.clh :: s/(u >> 16) | 0x40u/u >> 16/ :: known.bf16_by_16 :: known
common.clh :: s/i < 10; i++)/i < 9; i++)/ :: known.philox :: known
elements.clh :: s/(uint)min((ulong)(LS \* VEC), count - base)/(uint)(LS * VEC)/ :: relu.tail[lane] :: relu
elementwise.cl :: s/fma(LOAD16(DT, x, k), (float16)(factor), (float16)(shift))/LOAD16(DT, x, k) * factor/ :: scale.bf16[lane] :: scale
elementwise.cl :: s/fma(LOAD(DT, x, k), factor, shift)/LOAD(DT, x, k) * factor/ :: scale.bf16[flat] :: scale
unary.cl :: s/LOAD(DYT, dy, k) \* DFN(LOAD(DT, v, k))/DFN(LOAD(DT, v, k))/ :: gelu.tail[flat] :: gelu
unary.cl :: s/y \* ((type)(1.0f) - y)/y * ((type)(1.0f) + y)/ :: sigmoid.tail[lane] :: sigmoid
unary.cl :: s/STREAM16_GRAD(GT, dx, k, LOAD16(DYT, dy, k)/STREAM16(GT, dx, k, LOAD16(DYT, dy, k)/;s/CLT_CAT(DFN, 16)(LOAD16(DT, v, k)), accumulate)/CLT_CAT(DFN, 16)(LOAD16(DT, v, k)))/ :: silu.tail[lane] :: silu
binary.cl :: s/(phase + k) % period/(phase + k)/ :: add.f16_row[flat] :: add
binary.cl :: s/uint c = (uint)(base % period)/uint c = 0/ :: add.f16_row[lane] :: add
dropout.cl :: s/base \* 4 - index % 4/base * 4/ :: dropout.odd[flat] :: dropout
dropout.cl :: s/LOAD16(DT, x, at) \* scale/LOAD16(DT, x, at)/ :: dropout.bf16[lane] :: dropout
layernorm.cl :: s/ - CENTRED(load, c) \* s2//  :: layernorm.odd[row] :: layernorm
layernorm.cl :: s/(float)cols + eps)/(float)cols)/ :: layernorm.nobias[row] :: layernorm
layernorm.cl :: s/float d = LOAD(DT, x, c) - mean;/float d = LOAD(DT, x, c);/ :: layernorm.odd[group] :: layernorm
layernorm.cl :: s/load(f32, part_q, c) + load(DYT, dy, c)/load(DYT, dy, c)/ :: layernorm.blocks* :: layernorm
colsum.cl :: s/uint left = (uint)(end - row)/uint left = 0/ :: multiply.blocks[lane] :: multiply
colsum.cl :: s/for (; row < end; row++, dy += cols)/for (; row + 1 < end; row++, dy += cols)/ :: bias.tail[flat] :: bias
softmax.clh :: s/total \*= clt_exp_down(top - higher);/;/ :: cross_entropy.blocks[row] :: cross_entropy
softmax.cl :: s/dot = softmax_dot_end(dy + cols, y + cols, cols, next)/dot = softmax_dot_end(dy, y, cols, next)/ :: softmax.chunks[row] :: softmax
softmax.cl :: s/clt_group_max(scratch, fmax(top, clt_max4(top4)))/fmax(top, clt_max4(top4))/ :: softmax.far_ends[group] :: softmax
cross_entropy.cl :: s/ties > 0\.0f/false/ :: cross_entropy.ties[group] :: cross_entropy
cross_entropy.cl :: s/ \&\& cross_entropy_tie(x, t, row\.top)/ \&\& false/ :: cross_entropy.ties_far[row] :: cross_entropy
cross_entropy.cl :: s/SCALE_VALUE loss_scale\[loss_scale0\]/SCALE_VALUE 1.0f/ :: cross_entropy.odd[row] :: cross_entropy
pointwise_loss.cl :: s/SCALE_VALUE loss_scale\[loss_scale0\]/SCALE_VALUE 1.0f/ :: mse.odd[group] :: mse
pointwise_loss.cl :: s/(type)(-1\.0f), d < (type)(0\.0f)/(type)(1.0f), d < (type)(0.0f)/ :: l1.odd[group] :: l1
pointwise_loss.cl :: s/per_sample \* sb\[sb0 + SB_VALID\]/per_sample * (sb[sb0 + SB_VALID] + 1)/ :: mse.odd[group] :: mse
cross_entropy.cl :: s/rows_per_sample >= sb\[SB_VALID\]/rows_per_sample > sb[SB_VALID]/ :: cross_entropy.tail[row] :: cross_entropy
loss.cl :: s/record\[0\] += scaled/record[0] = scaled/ :: mse.odd[group] :: mse
embedding.cl :: s/order\[order0 + first + rank\]/order[order0 + first]/ :: embedding.odd[group] :: embedding
embedding.cl :: s/sum += count\[v\]/sum += 1/ :: embedding.odd[group] :: embedding
embedding.cl :: s/if (j < end) {/if (j + 1 < end) {/ :: embedding.vectors[row] :: embedding
reduce.cl :: s/IF_INDEX(first = v > sum ||/IF_INDEX(first = v >= sum ||/ :: reduce.max_middle[flat] :: reduce
reduce.cl :: s/STORE(DT, y, c, sum \* factor)/STORE(DT, y, c, sum)/ :: reduce.mean_middle[flat] :: reduce
transpose.cl :: s/tile\[lx \* (TILE + 1) + k\]/tile[k * (TILE + 1) + lx]/ :: transpose.swap_tiles[tile] :: transpose
transpose.cl :: s/for (; q < width_q; q++)/for (; q + 1 < width_q; q++)/ :: transpose.swap_long[lane] :: transpose
window.cl :: s/k < (INDEX)(y1 + run)/k <= (INDEX)(y1 + run)/ :: slice.* :: slice
kv_cache.cl :: s/else if (at == 0)/else if (at == 1)/ :: kv_cache.* :: kv_cache
gemm.cl :: s/p + v < k ? LOAD(DTA/p + v <= k ? LOAD(DTA/ :: gemm.odd_nt* :: gemm
gemm.cl :: s/sums\[i\]\[v\] += sums\[i\]\[v + half_size\]/sums[i][v] += sums[i][v]/ :: gemm.odd_nt* :: gemm
gemm_lane.cl :: s/if (k0 == 0)/if (k0 <= kc)/ :: gemm.deep_small[lane] :: gemm
gemm_lane.cl :: s/min(j + v, n - 1)/min(j, n - 1)/ :: gemm.odd_nn[lane] :: gemm
gemm_tile.cl :: s/if (rest != 0)/if (rest > 9)/ :: gemm.odd_nn[tile] :: gemm
gemm_epilogue.clh :: s/fma(beta, other_\[q_\], value_\[q_\])/fma(beta, value_[q_], other_[q_])/ :: gemm.vectors_everything[tile] :: gemm
attention.cl :: s/sum\[p\] \*= shrink/sum[p] *= 1.0f/ :: attention.odd[row] :: attention
attention.cl :: s/weight \*= keep;/;/ :: attention.dropout[row] :: attention
attention_group.cl :: s/seen > 0 \&\& now > before ? exp(before - now) : 1\.0f/1.0f/ :: attention.second_tile[group] :: attention
attention_lane.cl :: s/if (k + ROWS > all)/if (k > all)/ :: attention.second_tile[lane] :: attention
attention.clh :: s/return attention_beyond(i + 1 + keys, tq)/return attention_beyond(i + keys, tq)/ :: attention.odd[row] :: attention
functions.clh :: s/0\.1666651964187622f/0.1766651964187622f/ :: softmax.odd[row] :: softmax
END
}

n=0
while IFS= read -r line; do
    [ -n "${MUTATIONS:-}" ] && [[ ! $line =~ $MUTATIONS ]] && continue
    file=${line%% :: *}
    rest=${line#* :: }
    edit=${rest%% :: *}
    rest=${rest#* :: }
    checks=${rest%% :: *}
    op=${rest#* :: }
    n=$((n + 1))
    rm -rf kernels
    cp -r "$CLTRAIN_SOURCE_DIR/cl/kernels" kernels
    sed -i "$edit" "kernels/$file"
    if cmp -s "kernels/$file" "$CLTRAIN_SOURCE_DIR/cl/kernels/$file"; then
        : >"$out"
        fail "the edit changes nothing any more: $line"
        continue
    fi
    CLTRAIN_KERNEL_DIR=$work/kernels timeout 600 "$CLTRAIN" verify --mode correct -t "$checks" --seed 9 >"$out" 2>&1 </dev/null
    code=$?
    # An edit that writes far outside may take the process with it, which nobody overlooks either.
    if [ "$code" -ge 128 ] || { [ "$code" -eq 1 ] && grep -q -E "^FAIL +$op\\." "$out"; }; then
        pass
    else
        fail "code $code, and no failure of $op names this edit: $line"
    fi
    [ -z "${MUTATIONS_LOUD:-}" ] || echo "done: $line"
done < <(list)
[ "$n" -gt 0 ] || fail "no edit matches '${MUTATIONS:-}'"
finish
