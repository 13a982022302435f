#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-full: all
# ctest-cost: 10
#
# Wrong edits of kernels, one on each line, with the check that must detect it: the checker runs on a copy
# of the kernels with one of them changed (CLTRAIN_KERNEL_DIR) and must fail the op that uses the line. An
# edit that changes nothing could not fail, so each sed command of each line must change the code, comments
# aside, and each line must name a check that exists. Without argument only this is tested, with `all` the
# checker runs on every edit, too. MUTATIONS=PATTERN takes only the edits whose line matches,
# MUTATIONS_AT_ONCE=N runs N of them at once.
. "${CLTRAIN_SOURCE_DIR:?}/tests/e2e/lib.sh"

# file :: sed expression :: checks that are run :: op that must fail
list() {
    cat <<'END'
adam.clh :: s/value -= step \*/value += step */ :: update.adam[lane] :: update
adam.clh :: s/value -= step \*/value += step */ :: update.adam[group] :: update
adam.clh :: s|/ root2 + eps|/ (root2 + eps)| :: update.adamw[lane] :: update
adam.clh :: s/1\.0f - lr \* decay/1.0f - decay/ :: update.adamw[group] :: update
adam.clh :: s|float step = lr / as_float(st\[ST_CORRECTION1\])|float step = lr| :: update.adam[group] :: update
adam.clh :: s/d \* d, beta2 \* v1/d * d, v1/ :: update.adam[lane] :: update
update.cl :: s/row == interval/row > interval/ :: update.scale[lane] :: update
update.cl :: s/fmax(product(scale, backoff, backoff_rest), minimum)/product(scale, backoff, backoff_rest)/ :: update.scale[lane] :: update
update.cl :: s/product(scale, growth, growth_rest)/scale * growth/ :: update.scale[lane] :: update
update.cl :: s/isfinite(grown) ? grown : scale/grown/ :: update.scale_limit[lane] :: update
update.cl :: s/isfinite(norm) \&\& isfinite(loss)/isfinite(norm)/ :: update.adamw[lane] :: update
update.cl :: s/losses\[lo + 4 \* i\]/losses[lo + i]/ :: update.adamw[lane] :: update
update.clh :: s/ || st\[ST_SKIP\])/)/ :: update.nesterov[group] :: update
update.cl :: s/good ? 0u : st\[ST_SKIPPED_ROW\] + 1u/good ? 0u : 1u/ :: update.scale[lane] :: update
update.cl :: s/min(update, entries - 1u)/min(update, entries - 2u)/ :: update.adam[lane] :: update
sgd.cl :: s/PUT_WORKING(base + i, value)/PUT_WORKING(i, value)/ :: update.momentum[group] :: update
update.cl :: s/(norm + 1e-6f)/norm/ :: update.clip_small[lane] :: update
update.cl :: s/fmin(max_norm/fmax(max_norm/ :: update.adamw[lane] :: update
update.cl :: s/clt_sum16(sum) + compensated_sum(partial + c, n - c, 1)/clt_sum16(sum)/ :: update.spans[lane] :: update
update.cl :: s/first + NORM_CHUNKS)/first + NORM_CHUNKS - 1)/ :: update.spans[group] :: update
sgd.cl :: s/d = fma((REALS)(momentum), buf, d)/d = buf/ :: update.nesterov[lane] :: update
update.clh :: s/table\[to + 2 \* (ulong)chunk + 1\]/table[to + 1]/ :: update.nesterov[group] :: update
lanes.clh :: s/(u + 0x7fffu + ((u >> 16) \& 1u)) >> 16/(u + 0x8000u) >> 16/ :: known.bf16_by_16 :: known
lion.cl :: s/(REALS)(rest2), change/(REALS)(rest1), change/ :: update.lion[lane] :: update
lars.cl :: s/fma(decay, first_norm, second_norm) + eps/second_norm + eps/ :: update.lars[group] :: update
lars.cl :: s/value, GET(g, go + base + i) \* clip) \* trust/value, GET(g, go + base + i) * clip)/ :: update.lars[lane] :: update
lamb.cl :: s/fmin(first_norm, limit)/first_norm/ :: update.lamb_all[lane] :: update
lamb.cl :: s/fma((REALS)(decay), value, rescale1/fma((REALS)(0.0f), value, rescale1/ :: update.lamb[group] :: update
update.clh :: s/partial + no + chunks + chunk, count/partial + no + chunks + chunk, 1/ :: update.lamb[group] :: update
update.clh :: s/ratio\[ro + spans\[sno + 2 \* (ulong)chunk\]\] : 1.0f/ratio[ro + spans[sno + 2 * (ulong)chunk]] : 2.0f/ :: update.lars[lane] :: update
muon.cl :: s/(m1) - (d), (d)/(m1) - (d), (m1)/ :: update.muon[lane] :: update
muon.cl :: s|1.0f / fmax(first_norm, 1e-7f)|1.0f| :: update.muon_plain[group] :: update
muon.cl :: s/PUT(y, yo + place + i, (REALS)(0.0f))/PUT(y, yo + place + i, (REALS)(1.0f))/ :: update.muon[group] :: update
muon.cl :: s/(1.0f - lr \* decay)/(1.0f - lr * factor * decay)/ :: update.muon[lane] :: update
muon.cl :: s/if (st\[ST_SKIP\])/if (false)/ :: update.muon[group] :: update
muon.cl :: s/lr \*= others;/;/ :: update.muon[lane] :: update
update.clh :: s/#define ADAPTS .*/#define ADAPTS true/ :: update.muon[lane] :: update
update.clh :: s/uint chunk = places\[plo + 2 \* (ulong)own\];/uint chunk = own;/ :: update.muon_plain[lane] :: update
update.cl :: s/state\[so + ST_UPDATE\] == 1u/false/ :: update.ema[lane] :: update
update.cl :: s/value = fma((REALS)(rest), value - old, old)/value = fma((REALS)(rest), value, old)/ :: update.ema_f32[group] :: update
quads.clh :: s/(u + 0x7fffu + ((u >> 16) \& 1u)) >> 16/(u + 0x8000u) >> 16/ :: known.bf16_by_4 :: known
quads.clh :: s/vstore_half4_rte/vstore_half4_rtz/ :: known.f16_by_4 :: known
lanes.clh :: s/vstore_half16_rte/vstore_half16_rtz/ :: known.f16_by_16 :: known
common.clh :: s/(u + 0x7fffu + ((u >> 16) \& 1u)) >> 16/(u + 0x8000u) >> 16/ :: known.bf16 :: known
lanes.clh :: s/(u >> 16) | 0x40u/u >> 16/ :: known.bf16_by_16 :: known
common.clh :: s/i < 10; i++)/i < 9; i++)/ :: known.philox :: known
elements.clh :: s/(uint)min((ulong)(LS \* VEC), count - base)/(uint)(LS * VEC)/ :: relu.tail[lane] :: relu
elementwise.cl :: s/fma(LOADV(DT, x, k), (REALS)(factor), (REALS)(shift))/LOADV(DT, x, k) * factor/ :: scale.bf16[lane] :: scale
elementwise.cl :: s/fma(LOAD(DT, x, k), factor, shift)/LOAD(DT, x, k) * factor/ :: scale.bf16[flat] :: scale
unary.cl :: s/LOAD(DYT, dy, k) \* DFN(LOAD(DT, v, k))/DFN(LOAD(DT, v, k))/ :: gelu.tail[flat] :: gelu
unary.cl :: s/y \* ((type)(1.0f) - y)/y * ((type)(1.0f) + y)/ :: sigmoid.tail[lane] :: sigmoid
unary.cl :: s/VECTOR(DFN)(LOADV(DT, v, k)), accumulate)/VECTOR(DFN)(LOADV(DT, v, k)), 0)/ :: silu.tail[lane] :: silu
binary.cl :: s/(phase + k) % period/(phase + k)/ :: add.f16_row[flat] :: add
binary.cl :: s/uint c = (uint)(base % period)/uint c = 0/ :: add.f16_row[lane] :: add
dropout.cl :: s/base \* 4 - index % 4/base * 4/ :: dropout.odd[flat] :: dropout
dropout.cl :: s/LOAD16(DT, x, at) \* scale/LOAD16(DT, x, at)/ :: dropout.bf16[lane] :: dropout
layernorm.cl :: s/float4 d = MINUS_MEAN(LOAD4, c);/float4 d = LOAD4(DT, x, c) * 1.01f;/ :: rmsnorm.bf16[group] :: rmsnorm
layernorm.cl :: s/sum4 += clt_keep4(of_x\[k\]\[j\], c, cols)/sum4 += of_x[k][j]/ :: layernorm.vectors[blocks] :: layernorm
layernorm.cl :: s/(v) + b4\[j\]/(v)/ :: layernorm.vectors[blocks] :: layernorm
layernorm.cl :: s/KEEP_STATS(row + k, means\[k\], rstd)/KEEP_STATS(row, means[k], rstd)/ :: layernorm.vectors[blocks] :: layernorm
colsum.cl :: s/((dy) \* ((x)\*scale))/((dy) * (x))/ :: rmsnorm.blocks[group] :: rmsnorm
rotary.cl :: s/s = sign \* sinpi(angle)/s = sinpi(angle)/ :: rotary.odd[flat] :: rotary
rotary.cl :: s/bool turns = h < turned/bool turns = true/ :: rotary.part[flat] :: rotary
rotary.cl :: s/ratio = mul_hi(ratio, ratio))/ratio = ratio)/ :: rotary.tail[lane] :: rotary
rotary.cl :: s/0x28BE60DB9391054AUL/0x28BE60DB00000000UL/ :: rotary.far[lane] :: rotary
rotary.cl :: s/ulong c = (ulong)turned \* dim/ulong c = (ulong)turned * dim + 1/ :: rotary.part[lane] :: rotary
layernorm.cl :: s/ - CENTRED(load, c) \* s2//  :: layernorm.odd[row] :: layernorm
layernorm.cl :: s/(float)cols + eps)/(float)cols)/ :: layernorm.nobias[row] :: layernorm
layernorm.cl :: s/float d = MINUS_MEAN(LOAD, c);/float d = LOAD(DT, x, c);/ :: layernorm.odd[group] :: layernorm
layernorm.cl :: s/load(f32, part_q, c) + load(DYT, dy, c)/load(DYT, dy, c)/ :: layernorm.blocks* :: layernorm
colsum.cl :: s/uint left = (uint)(end - row)/uint left = 0/ :: multiply.blocks[lane] :: multiply
colsum.cl :: s/min(height - r, (uint)FEW)/min(height - r - 1, (uint)FEW)/ :: bias.tail[flat] :: bias
colsum.cl :: s/uint c = 4 \* (uint)/uint c = (uint)/ :: bias.vectors_780[flat] :: bias
quads.clh :: s/as_float4(as_int4(v) \& ((int)(k - count) >> 31))/v/ :: layernorm.vectors[blocks] :: layernorm
layernorm.cl :: s/clt_keep4(BY_W(of_dy\[k\]\[j\], j), c, cols)/BY_W(of_dy[k][j], j)/ :: layernorm.vectors[blocks] :: layernorm
layernorm.cl :: s/clt_keep4(of_dy\[k\]\[j\] \* n, k, count)/of_dy[k][j] * n/ :: layernorm.vectors[blocks] :: layernorm
layernorm.cl :: s/for (uint i = 0; i < WG; i += 8)/for (uint i = 0; i + 8 < WG; i += 8)/ :: layernorm.vectors_f16[blocks] :: layernorm
layernorm.cl :: s/if (k < count \&\& c < cols)/if (c < cols)/ :: layernorm.vectors[blocks] :: layernorm
layernorm.cl :: s/v += old\[k\]\[j\];/;/ :: layernorm.vectors[blocks] :: layernorm
layernorm.cl :: s/p0 + block \* cols + c, sum_p/p0 + c, sum_p/ :: layernorm.vectors[blocks] :: layernorm
softmax.clh :: s/total \*= clt_exp_down(top - higher);/;/ :: cross_entropy.blocks[row] :: cross_entropy
softmax.cl :: s/dot = softmax_dot_end(dy + cols, y + cols, cols, next)/dot = softmax_dot_end(dy, y, cols, next)/ :: softmax.chunks[row] :: softmax
softmax.cl :: s/clt_group_max(scratch, fmax(top, clt_max4(top4)))/fmax(top, clt_max4(top4))/ :: softmax.far_ends[group] :: softmax
cross_entropy.cl :: s/ties > 0\.0f/false/ :: cross_entropy.ties[group] :: cross_entropy
cross_entropy.cl :: s/ \&\& cross_entropy_tie(x, t, row\.top)/ \&\& false/ :: cross_entropy.ties_far[row] :: cross_entropy
loss_scale.clh :: s/has_scale ? loss_scale\[loss_scale0\] : 1\.0f/1.0f/ :: cross_entropy.odd[row] :: cross_entropy
loss_scale.clh :: s/has_scale ? loss_scale\[loss_scale0\] : 1\.0f/1.0f/ :: mse.odd[group] :: mse
pointwise_loss.cl :: s/(type)(-1\.0f), d < (type)(0\.0f)/(type)(1.0f), d < (type)(0.0f)/ :: l1.odd[group] :: l1
pointwise_loss.cl :: s/per_sample \* sb\[sb0 + SB_VALID\]/per_sample * (sb[sb0 + SB_VALID] + 1)/ :: mse.odd[group] :: mse
cross_entropy.cl :: s/rows_per_sample >= sb\[SB_VALID\]/rows_per_sample > sb[SB_VALID]/ :: cross_entropy.tail[row] :: cross_entropy
loss.cl :: s/record\[0\] += scaled/record[0] = scaled/ :: mse.odd[group] :: mse
embedding.cl :: s/order\[order0 + POSITION(first + rank)\] = p/order[order0 + POSITION(first)] = p/ :: embedding.odd[group] :: embedding
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
gemm_lane.cl :: s/if (starts)/if (k0 <= kc)/ :: gemm.deep_small[lane] :: gemm
gemm_lane_pack_b.clh :: s/min(j + v, n - 1)/min(j, n - 1)/ :: gemm.odd_nn[lane] :: gemm
gemm_tile.cl :: s/if (rest != 0)/if (rest > 9)/ :: gemm.odd_nn[tile] :: gemm
gemm_epilogue.clh :: s/fma(beta, other_\[q_\], value_\[q_\])/fma(beta, value_[q_], other_[q_])/ :: gemm.vectors_everything[tile] :: gemm
attention.cl :: s/sum\[p\] \*= shrink/sum[p] *= 1.0f/ :: attention.odd[row] :: attention
attention.cl :: s/weight \*= keep;/;/ :: attention.dropout[row] :: attention
attention_lane.cl :: s/if (k + ROWS > all)/if (k > all)/ :: attention.second_tile[lane] :: attention
attention.clh :: s/return attention_beyond(i + 1 + keys, tq)/return attention_beyond(i + keys, tq)/ :: attention.odd[row] :: attention
functions.clh :: s/0\.1666651964187622f/0.1766651964187622f/ :: softmax.odd[row] :: softmax
update.cl :: s/as_uint(inverse \* clip)/as_uint(clip)/ :: update.nesterov[group] :: update
update.clh :: s/lane < n ? compensated_sum/lane + 1 < n ? compensated_sum/ :: update.sgd[group] :: update
update.cl :: s/row = 0u;/row = 1u;/ :: update.scale[group] :: update
update.cl :: s/good ? st\[ST_GROWTH\] + 1u : 0u/st[ST_GROWTH] + 1u/ :: update.scale[group] :: update
adam.clh :: s/fma((REALS)(rest1), d - m1, m1)/fma((REALS)(rest1), d, m1)/ :: update.adam[group] :: update
sgd.cl :: s/fma((REALS)(decay), value, GET(g, go + base + i) \* clip)/GET(g, go + base + i) * clip/ :: update.sgd[group] :: update
update.clh :: s/float decay = table\[to + 2 \* (ulong)chunk\]/float decay = table[to]/ :: update.sgd[group] :: update
update.cl :: s/return isfinite(p) ? p + fma(x, low, fma(x, high, -p)) : p;/return p;/ :: update.scale[group] :: update
update.cl :: s/st\[ST_UPDATE\] = update + (skip ? 0u : 1u)/st[ST_UPDATE] = update + 1u/ :: update.momentum[group] :: update
update.cl :: s/first = i \* SPAN/first = i * (SPAN - 1)/ :: update.spans[lane] :: update
layernorm.cl :: s|s2 = clt_group_sum(scratch, s2 + clt_sum4(sum2)) / (float)cols|s2 = clt_group_sum(scratch, s2 + clt_sum4(sum2))| :: layernorm.bf16[group] :: layernorm
layernorm.cl :: s/load(WT, b, b0 + (c))/load(WT, b, b0)/ :: layernorm.bf16[group] :: layernorm
layernorm.cl :: s/rstd = rstd_in\[rstd0 + row\], s2/rstd = rstd_in[rstd0], s2/ :: layernorm.bf16[group] :: layernorm
layernorm.cl :: s/STREAM16_GRAD(GT, dx, c, DX(LOAD16, c), accumulate)/STREAM16_GRAD(GT, dx, c, DX(LOAD16, c), 0)/ :: layernorm.bf16[row] :: layernorm
layernorm.cl :: s/rstd_out\[rstd0 + (row)\] = (rstd)/rstd_out[rstd0] = (rstd)/ :: layernorm.bf16[group] :: layernorm
quads.clh :: s/(cols) \& ~3u : 0u/(cols) : 0u/ :: layernorm.f16[group] :: layernorm
quads.clh :: s/uint c = (whole) + lane; c < (cols)/uint c = (whole) + lane + 1; c < (cols)/ :: softmax.f16[group] :: softmax
softmax.cl :: s/((dy)-name(clt_exp_down)(y) \* (dot))/((dy)-name(clt_exp_down)(y))/ :: log_softmax.bf16[group] :: log_softmax
softmax.clh :: s/s->total = s->total \* clt_exp_down(s->top - higher) +/s->total = s->total +/ :: cross_entropy.ties_far[row] :: cross_entropy
softmax.clh :: s/if (higher > top) {/if (higher > top + 1.0f) {/ :: cross_entropy.blocks[row] :: cross_entropy
cross_entropy.cl :: s/centred4 += SMOOTH ? WEIGHT4_OF(w, c) \* d : d;/;/ :: cross_entropy.f16_smooth[group] :: cross_entropy
cross_entropy.cl :: s/q += (SMOOTH ? 1\.0f - smoothing : 1\.0f) \* cross_entropy_hot/q += cross_entropy_hot/ :: cross_entropy.f16_smooth[group] :: cross_entropy
cross_entropy.cl :: s/STORE(GT, dx, t, before + scale/STORE(GT, dx, t, scale/ :: cross_entropy.ties[row] :: cross_entropy
cross_entropy.cl :: s/return (int)\*target != ignore;/return true;/ :: cross_entropy.ignore[group] :: cross_entropy
cross_entropy.cl :: s/target, row0 + r, rows_per_sample/target, r, rows_per_sample/ :: linear_cross_entropy.bf16[group] :: linear_cross_entropy
cross_entropy.cl :: s/for (; c < stride; c++)/for (; c < cols; c++)/ :: cross_entropy.f16_smooth[row] :: cross_entropy
cross_entropy.cl :: s/uint c = cols + lane; c < stride; c += WG/uint c = cols + lane; c + WG < stride; c += WG/ :: linear_cross_entropy.bf16[group] :: linear_cross_entropy
cross_entropy.cl :: s/e = KEEP_EXP ? e : clt_exp_down(e - row.top);/e = clt_exp_down(e - row.top);/ :: linear_cross_entropy.one[group] :: linear_cross_entropy
embedding.cl :: s/for (uint i = 0; i < lane; i++)/for (uint i = 0; i <= lane; i++)/ :: embedding.one[flat] :: embedding
embedding.cl :: s/slots\[j\] < p ? 1u : 0u/slots[j] <= p ? 1u : 0u/ :: embedding.odd[flat] :: embedding
embedding.cl :: s/POSITION(order\[j + 2\])/POSITION(order[j + 1])/ :: embedding.odd[flat] :: embedding
embedding.cl :: s/for (uint v = vocab; v > 0; v--)/for (uint v = vocab; v > 1; v--)/ :: embedding.odd[row] :: embedding
embedding.cl :: s/if (accumulate \&\& j == all)/if (j == all)/ :: embedding.unused_rows[flat] :: embedding
embedding.cl :: s/if (accumulate \&\& first == all)/if (first == all)/ :: embedding.unused_rows[row] :: embedding
functions.clh :: s/0\.19963064789772034f/0.19863064789772034f/ :: cross_entropy.two_classes[group] :: cross_entropy
functions.clh :: s/CLT_K(1\.0f) - s, CLT_K(1\.0f))/CLT_K(1.0f) - s, CLT_K(0.9f))/ :: silu.one[flat] :: silu
functions.clh :: s/x > CLT_K(18\.4f)/x > CLT_K(3.0f)/ :: tanh.tail[flat] :: tanh
dropout.cl :: s/ONE(at + 2, words.z);/ONE(at + 2, words.y);/ :: dropout.odd[flat] :: dropout
dropout.cl :: s/k += 8, lanes += 8/k += 8, lanes += 4/ :: dropout.odd[lane] :: dropout
dropout.cl :: s/(((ulong)sb\[SB_SAMPLE_HI\] << 32) | sb\[SB_SAMPLE_LO\])/((ulong)sb[SB_SAMPLE_LO])/ :: dropout.odd[flat] :: dropout
dropout.cl :: s/select(v, (float4)(0.0f), convert_float4(words >> 8)/select(v, (float4)(0.0f), convert_float4(words.yxzw >> 8)/ :: dropout.f16[flat] :: dropout
quads.clh :: s/(u >> 16) | 0x40u/u >> 16/ :: known.bf16_by_4 :: known
common.clh :: s/(u >> 16) | 0x40u/u >> 16/ :: known.bf16 :: known
common.clh :: s/vstore_half_rte/vstore_half_rtz/ :: known.f16 :: known
quads.clh :: s/const __global uchar4/const __global char4/ :: cast.u8[flat] :: cast
lanes.clh :: s/LOAD16_i32(p, i) convert_float16(vload16(0, (p) + (i)))/LOAD16_i32(p, i) convert_float16(convert_short16(vload16(0, (p) + (i))))/ :: cast.i32[lane] :: cast
reduce.cl :: s|half_size = WG / 2|half_size = WG / 4| :: reduce.sum_all[group] :: reduce
reduce.cl :: s/IF_INDEX(place += ROWS;)/;/ :: reduce.max_middle[lane] :: reduce
reduce.cl :: s/LOAD(DYT, dy, dy0 + o) \* factor/LOAD(DYT, dy, dy0 + o)/ :: reduce.mean_all[group] :: reduce
reduce.cl :: s/found = min(found, /found = max(0u, / :: reduce.max_f16[group] :: reduce
transpose.cl :: s/(rest - next \* d2) \* (INDEX)s2/(rest - next * d2) * (INDEX)s3/ :: transpose.heads[flat] :: transpose
transpose.cl :: s/for (; i < cell; i++)/for (; i + 1 < cell; i++)/ :: transpose.heads[lane] :: transpose
transpose.cl :: /barrier(CLK_LOCAL_MEM_FENCE);/d :: transpose.swap[tile] :: transpose
gemm_lane.cl :: s/panel += STEPS \* NR;/panel += NR;/ :: gemm.odd_nn[lane] :: gemm
gemm_lane.cl :: s/place.first_row = min(row_block \* grid->mt + part \* mt, until)/place.first_row = min(row_block * grid->mt, until)/ :: gemm.beta_one[lane] :: gemm
gemm_epilogue.clh :: s/float16 value_ = alpha \* (sum);/float16 value_ = (sum);/ :: gemm.scaled_vectors[lane] :: gemm
gemm_epilogue.clh :: s/float value_ = alpha \* (sum);/float value_ = (sum);/ :: gemm.scaled_vectors[simple] :: gemm
gemm_epilogue.clh :: s/value_ = fma((float16)(beta), LOAD16(DTC, c, c_at + at_), value_)/value_ = value_/ :: gemm.scaled_vectors[lane] :: gemm
gemm_epilogue.clh :: s/if (beta != 0.0f)/if (true)/ :: gemm.one[simple] :: gemm
gemm_tiles.clh :: s/s->depth = min(k - s->k0, k_part)/s->depth = k_part/ :: gemm.deep_small[tile] :: gemm
cross_entropy.cl :: s/target >= 0 \&\& (uint)target < cols/target >= 0 \&\& (uint)target <= cols/ :: cross_entropy.out_of_range[group] :: cross_entropy
embedding.cl :: s/clamp(v, 0L, (long)vocab - 1)/min(v, (long)vocab - 1)/ :: embedding.out_of_range[row] :: embedding
gemm_epilogue.clh :: s/value_\[q_\] = alpha \* (from)\[q_\]/value_[q_] = (from)[q_]/ :: gemm.vectors_small[tile] :: gemm
gemm_lane.cl :: s/LOAD2(dt, (from) + (MR \& 12))/LOAD2(dt, (from) + (MR \& 8))/ :: gemm.columns_tn[lane] :: gemm
gemm_packed.clh :: s/vstore_half_rte/vstore_half_rtz/ :: gemm.vectors_f16[tile] :: gemm
gemm_sum.cl :: s/(ulong)z \* splits \* m/(ulong)z * m/ :: gemm.deep_batch[tile] :: gemm
lanes.clh :: s/TURN8_HIGH4(b_\[i_\], b_\[i_ + 4\])), 0, (out) + (i_ + 4)/TURN8_HIGH4(b_[i_], b_[i_])), 0, (out) + (i_ + 4)/ :: transpose.swap_tiles[lane] :: transpose
layernorm.cl :: s/load(DYT, dy, c) \* CENTRED(load, c))/load(DYT, dy, c))/ :: layernorm.blocks[row] :: layernorm
reduce.cl :: s/SHARE(grad, found, place + i), accumulate);/SHARE(grad, found, i), accumulate);/ :: reduce.max_alternate[group] :: reduce
reduce.cl :: s/return (i0 \* r1 + i1) \* r2 + i;/return i1 * r2 + i;/ :: reduce.max_alternate[row] :: reduce
reduce.cl :: s/return v > sum || v != v ? v : sum;/return v > sum ? v : sum;/ :: reduce.max_nan[group] :: reduce
softmax.cl :: s/first < cols; first += ROW_BLOCK/first < cols; first += 2 * ROW_BLOCK/ :: softmax.blocks[row] :: softmax
softmax.cl :: s/rest \* norm);/rest);/ :: softmax.far_row[row] :: softmax
softmax.cl :: s/softmax_result(y - (chunk - r) \* cols, kept + r \* stride, cols, norms\[r\]);/softmax_result(y - (chunk - r) * cols, kept, cols, norms[r]);/ :: softmax.tail[row] :: softmax
transpose.cl :: s/WOVEN_LOW2(a\[first + odd\], a\[first + odd + 2\])/WOVEN_LOW2(a[first + odd], a[first + 2])/ :: transpose.swap_bf16_odd[lane] :: transpose
transpose.cl :: s/y += (rest - next \* o2) \* ys2;/y += (rest - next * o2) * ys3;/ :: transpose.reverse[lane] :: transpose
gemm_tiles.clh :: s/tile_i = band \* BAND + in_band - tile_j \* height/tile_i = in_band - tile_j * height/ :: gemm.tall[tile] :: gemm
gemm_tiles.clh :: s/if ((j) + VC <= n || (STREAM/if ((j) < n || (STREAM/ :: gemm.vectors_small[tile] :: gemm
gemm.cl :: s/row\[r\] = (ulong)min(r0 + r, narrow_size - 1) \* row_step/row[r] = (ulong)min(r0, narrow_size - 1) * row_step/ :: gemm.odd_nn[simple] :: gemm
gemm.cl :: s/FINISH(w0 + v, r0 + r, sums\[r\]\[v\])/FINISH(r0 + r, w0 + v, sums[r][v])/ :: gemm.odd_tt[simple] :: gemm
checksum.cl :: s/weighted_total += x\[i\] \* (i + 1u)/weighted_total += x[i] * i/ :: known.checksum :: known
gemm_lane.cl :: s/(k > kc ? (jt \* rows + it) \* (MR \* NR) : 0)/(k > kc ? it * (MR * NR) : 0)/ :: gemm.micro_panels_nn[lane_6x1_kc192_8x8] :: gemm
gemm_lane_pack_b.clh :: s/(micro_panel \* kn + k) \* NR/(k) * NR/ :: gemm.micro_panels_nn[lane_6x1_kc192_8x8] :: gemm
gemm_lane.cl :: s/skip = MR - height;/skip = 0;/ :: gemm.micro_panels_nn[lane_6x1_kc192_8x8] :: gemm
softmax.clh :: s/top1 = clt_row_larger(top1, LOAD16(DT, x, c + LANES))/top1 = clt_row_larger(top1, LOAD16(DT, x, c))/ :: softmax.peaks[row] :: softmax
groups.clh :: s/GROUP_RESULT(top, scratch, fmax)/float top = scratch[lane \& 15];/ :: softmax.peaks[group] :: softmax
loss.cl :: s/correct += part\[3 \* p + 2\]/correct = part[3 * p + 2]/ :: bce_with_logits.block_tail[group] :: bce_with_logits
loss.cl :: s/end = min(first + block, n)/end = n/ :: mse.two_stage[group] :: mse
window.cl :: s/first = (get_global_id(0) - o \* chunks) \* CHUNK/first = 0/ :: slice.long_vectors[row] :: slice
attention_group.cl :: s/for (uint k = 1; k < ROW_ITEMS; k++)/for (uint k = 2; k < ROW_ITEMS; k++)/ :: attention.head_36[group] :: attention
dropout.cl :: s/at + 4 \* (ulong)k + 4 <= elements/at + 4 * (ulong)k + 3 <= elements/ :: dropout.edge[flat] :: dropout
mma_registers.clh :: s/vstore_half_rte/vstore_half_rtz/ :: known.f16_fragment :: known
update.clh :: s/float y = x\[i\] - rest;/float y = x[i];/ :: update.steep[lane] :: update
gemm_epilogue.clh :: s/uint16 r = (a + 0x0fffu + ((a >> 13) \& 1u))/uint16 r = (a + 0x1000u)/ :: gemm.vectors_small[lane] :: gemm
kv_cache.cl :: s/position\[p0 + n\]/position[p0]/ :: kv_cache.later[flat] :: kv_cache
softmax.clh :: s/most = clt_row_larger(most, LOAD16(DT, next, i + LANES))/most = clt_row_larger(most, LOAD16(DT, next, i))/ :: cross_entropy.peaks[row] :: cross_entropy
softmax.clh :: s/s.most = clt_row_larger(s.most, LOAD16(DT, x, c))/s.most = LOAD16(DT, x, c)/ :: cross_entropy.ties_far[row] :: cross_entropy
mma_registers.clh :: s/clt_bf16_round(value)/as_uint(value) >> 16/ :: known.bf16_fragment :: known
gemm_packed.clh :: s/vstore_half_rte/vstore_half_rtz/ :: gemm.vectors_small[tile] :: gemm
update.clh :: s/rest = (t - sum) - y;/rest = 0.0f;/ :: update.steep[lane] :: update
gemm_epilogue.clh :: s/#define EPILOGUE_AS_bf16(v) clt_bf16_load(clt_bf16_round(v))/#define EPILOGUE_AS_bf16(v) (v)/ :: gemm.ties_bf16[lane] :: gemm
attention.cl :: s/total \*= shrink;/;/ :: attention.late_tops[row] :: attention
attention.clh :: s/(((ulong)sb\[SB_SAMPLE_HI\] << 32) | sb\[SB_SAMPLE_LO\])/((ulong)sb[SB_SAMPLE_LO])/ :: attention.dropout[row] :: attention
attention.clh :: s/((sample \* HEADS + h) \* tq + i) \* tk/((sample * HEADS + h) * tk + i) * tk/ :: attention.dropout_cross[group] :: attention
attention.clh :: s/return (uint)clamp(length, 0, (int)tk);/return (uint)length;/ :: attention.lengths[group] :: attention
attention.clh :: s/return attention_beyond(j + tq, keys)/return attention_beyond(j + tq + 1, keys)/ :: attention.odd[row] :: attention
attention_group.cl :: s/STORE_ROWS(GT, dq, lddq, sum, scale, rows, accumulate)/STORE_ROWS(GT, dq, lddq, sum, 1.0f, rows, accumulate)/ :: attention.odd[group] :: attention
attention_group.cl :: s/\*total = \*total \* shrink + sum/*total = *total + sum/ :: attention.second_tile[group] :: attention
attention_group.cl :: s/float shrink = exp(before - now);/float shrink = 1.0f;/ :: attention.late_tops[group] :: attention
attention_group.cl :: s/h < (g + 1) \* SHARING; h++/h < g * SHARING + 1; h++/ :: attention.shared[group] :: attention
attention_group.cl :: s/if (j0 + column < seen)/if (j0 + column <= seen)/ :: attention.odd[group] :: attention
attention_group.cl :: s/mine > 0 ? 1.0f \/ total : 0.0f/1.0f \/ total/ :: attention.lengths[group] :: attention
attention_group.cl :: s/now = fmax(now, tops\[k\])/now = tops[k]/ :: attention.one[group] :: attention
attention_group.cl :: s/top = fmax(top, s);/top = s;/ :: attention.one[group] :: attention
attention_group.cl :: s/weight \* (slope\[r\]\[c\] \* keep - mean\[row\])/weight * (slope[r][c] - mean[row])/ :: attention.dropout[group] :: attention
attention_lane.cl :: s/bool add = accumulate_q || round > 0;/bool add = accumulate_q;/ :: attention.second_tile[lane] :: attention
attention_lane.cl :: s/e \* (slope - mean), v, ds/e * slope, v, ds/ :: attention.odd[lane] :: attention
attention_lane.cl :: s/for (uint s = 1; s < shares; s++)/for (uint s = 2; s < shares; s++)/ :: attention.second_tile[lane] :: attention
attention_lane.cl :: s/if (q == at->rows \&\& !fresh)/if (q == at->rows)/ :: attention.lengths[lane] :: attention
attention_lane.clh :: s/lead == w/lead == 0/ :: attention.dropout[lane] :: attention
attention_lane.cl :: s/put_rows(dk + dk0 + key_row \* lddk + g \* HEAD_SIZE, lddk, t.dk, have, 1.0f, accumulate_k)/put_rows(dk + dk0 + key_row * lddk + g * HEAD_SIZE, lddk, t.dk, have, 1.0f, 0)/ :: attention.second_tile[lane] :: attention
attention_lane.clh :: s/return keep + lead;/return keep;/ :: attention.dropout[lane] :: attention
attention_lane.clh :: s/row\[i\] = min(r + i, rows - 1) \* ldx/row[i] = min(r, rows - 1) * ldx/ :: attention.odd[lane] :: attention
attention_lane.cl :: s/select(top\[v\], sum\[r\]\[v\], sum\[r\]\[v\] > top\[v\])/sum[r][v]/ :: attention.one[lane] :: attention
attention_lane.cl :: s/t->norm\[r\] = lse\[from\]/t->norm[r] = lse[0]/ :: attention.odd[lane] :: attention
attention_lane.cl :: s/vload16(v, t->total + c), shrink, total\[v\])/vload16(v, t->total + c), ZERO + 1.0f, total[v])/ :: attention.late_tops[lane] :: attention
attention_lane.cl :: s/vload16(v, to + r \* WIDTH) \* (float16)(t->shrink\[q + r\])/vload16(v, to + r * WIDTH)/ :: attention.late_tops[lane] :: attention
attention_mma.cl :: s/#define SLACK 8.0f/#define SLACK 40.0f/ :: attention.f16_late_tops[mma] :: attention
attention_mma.cl :: s/\*total \*= shrink;/;/ :: attention.f16_late_tops[mma] :: attention
attention_mma.cl :: s/float2 low = keep_pair(sb + sb0, op, number + 8 \* (ulong)tk, 1/float2 low = keep_pair(sb + sb0, op, number, 1/ :: attention.f16_dropout[mma] :: attention
attention_mma.cl :: s/if ((int)(j0 + c + 16) > clear)/if ((int)(j0 + c) > clear)/ :: attention.f16[mma] :: attention
attention_mma.clh :: s/int next = seen + CAUSAL;/int next = seen;/ :: attention.f16[mma] :: attention
attention_mma.clh :: s/next_i0 = first;/next_i0 = 0;/ :: attention.bf16_lengths[mma] :: attention
attention_mma.cl :: s/return fmax(top, MMA_SHUFFLE_XOR(top, 2, scratch))/return top/ :: attention.f16[mma] :: attention
attention_mma.cl :: s/up += MMA_SHUFFLE_XOR(up, 2, scratch);/;/ :: attention.f16[mma] :: attention
binary.cl :: s/#define TERM_2(load, k) load(DT, in1, k) +/#define TERM_2(load, k) load(DT, in0, k) +/ :: add.seven[flat] :: add
binary.cl :: s/#define TERM_3(load, k) load(DT, in2, k) +/#define TERM_3(load, k)/ :: add.seven[flat] :: add
binary.cl :: s/ADVANCE_1 in0 += off0 + base;/ADVANCE_1 in0 += base;/ :: add.bf16[flat] :: add
binary.cl :: s/last += last0 + base;/last += base;/ :: add.bf16[flat] :: add
binary.cl :: s/load(DT, in0, k) \* load(BT, last, c)/load(DT, in0, k) + load(BT, last, c)/ :: multiply.bf16[flat] :: multiply
checksum.cl :: s/sums\[so + 2 \* chunk + 1\] = weighted\[0\]/sums[so + 2 * chunk + 1] = total[0]/ :: known.checksum_group :: known
checksum.cl :: s/total\[l\] += total\[l + half_items\]/total[l] = total[l + half_items]/ :: known.checksum_group :: known
checksum.cl :: s/word \* (place + i)/word * place/ :: known.checksum :: known
colsum.cl :: s/((x)-centre) \* scale)/((x)-centre))/ :: layernorm.bf16[group] :: layernorm
colsum.cl :: s/q += q0 + block \* cols + begin/q += q0 + begin/ :: bias.bf16[flat] :: bias
colsum.cl :: s/sum_p\[c\] += TERM_P(LOAD, r \* cols + c)/sum_p[c] += TERM_P(LOAD, c)/ :: multiply.f16_row[lane] :: multiply
colsum.cl :: s/sum_q\[c\], q_accumulate/sum_q[c], 0/ :: bias.bf16[lane] :: bias
cross_entropy.cl :: s/- q));/- base));/ :: cross_entropy.odd[row] :: cross_entropy
cross_entropy.cl :: s/as_float(sb\[SB_NORM + loss_index\])/as_float(sb[SB_NORM])/ :: cross_entropy.odd[group] :: cross_entropy
cross_entropy.cl :: s/c < cols \&\& cross_entropy_counts/cross_entropy_counts/ :: cross_entropy.padded[group] :: cross_entropy
cross_entropy.cl :: s/centred += WEIGHT_OF(w, c) \* (LOAD(DT, x, c) - top);/centred += WEIGHT_OF(w, c) * LOAD(DT, x, c);/ :: cross_entropy.smooth[row] :: cross_entropy
cross_entropy.cl :: s/float before = in_range \&\& accumulate ? /float before = in_range ? / :: cross_entropy.odd[row] :: cross_entropy
cross_entropy.cl :: s/correct = row\.xt == row\.top \&\& !beaten/correct = row.xt == row.top/ :: cross_entropy.ties[group] :: cross_entropy
cross_entropy.cl :: s/out\[1\] = 1.0f;/out[1] = hit;/ :: cross_entropy.odd[group] :: cross_entropy
cross_entropy.cl :: s/smoothing \* (w\.mean_weight \* log_sum - centred \/ (float)cols)/smoothing * (w.mean_weight * log_sum - centred)/ :: cross_entropy.smooth[group] :: cross_entropy
cross_entropy.cl :: s/smoothing \/ (float)cols : 0.0f;/smoothing : 0.0f;/ :: cross_entropy.smooth[group] :: cross_entropy
cross_entropy.cl :: s/stats += stats0 + 2 \* r;/stats += stats0 + r;/ :: cross_entropy.odd[group] :: cross_entropy
cross_entropy.cl :: s/ties += any(tie) ? 1.0f : 0.0f/ties += 0.0f/ :: cross_entropy.ties[group] :: cross_entropy
cross_entropy.cl :: s/weight \* as_float(sb\[SB_NORM + loss_index\])/as_float(sb[SB_NORM + loss_index])/ :: cross_entropy.f16_smooth[group] :: cross_entropy
cross_entropy.cl :: s/x += x0 + r \* stride;/x += x0 + r * cols;/ :: cross_entropy.padded[group] :: cross_entropy
elementwise.cl :: s/STORE(GT, dst, k, 0.0f);/;/ :: positional.bf16[flat] :: positional
elementwise.cl :: s/STREAMV_GRAD(GT, dx, k, LOADV(DT, dy, k) \* factor, accumulate)/STREAMV_GRAD(GT, dx, k, LOADV(DT, dy, k), accumulate)/ :: scale.bf16[flat] :: scale
embedding.cl :: s/sum, rest, s0 + s1)/sum, rest, s0)/ :: embedding.per_sample[row] :: embedding
embedding.cl :: s/cursor\[v\] = base;/cursor[v] = base + 1;/ :: embedding.odd[flat] :: embedding
embedding.cl :: s/if (lane == WG - 1)/if (lane == 0)/ :: embedding.odd[flat] :: embedding
embedding.cl :: s/p, vocab) == (long)index\[p\]/p, vocab) >= (long)index[p]/ :: embedding.out_of_range[flat] :: embedding
embedding.cl :: s/p, vocab) == (long)index\[p\]/p, vocab) <= (long)index[p]/ :: embedding.out_of_range[flat] :: embedding
embedding.cl :: s/s0 + s1) + (s2 + s3)/s0 + s1) + s2/ :: embedding.odd[flat] :: embedding
embedding.cl :: s/s3 += LOAD(DT, dy, (ulong)POSITION(order\[j + 3\]) \* dim)/s3 = LOAD(DT, dy, (ulong)POSITION(order[j + 3]) * dim)/ :: embedding.out_of_range[flat] :: embedding
embedding.cl :: s/ulong row = embedding_index(index + index0, p, vocab)/ulong row = embedding_index(index, p, vocab)/ :: embedding.odd[flat] :: embedding
fill.cl :: s/buffer\[offset + i\] = (uchar)pattern;/buffer[offset + i] = (uchar)(pattern >> 8);/ :: known.fill_u8 :: known
fill.cl :: s/buffer\[offset + i\] = pattern;/buffer[i] = pattern;/ :: known.fill_u32 :: known
fill.cl :: s/i < count; i += get_global_size(0))/i + 1 < count; i += get_global_size(0))/ :: known.fill_u32 :: known
gemm.cl :: s/(ulong)z \* stride_b/(ulong)z * stride_a/ :: gemm.batch_nn[simple] :: gemm
gemm.cl :: s/p + v < k ? LOAD(DTB/p + v <= k ? LOAD(DTB/ :: gemm.odd_nt[simple] :: gemm
gemm.cl :: s/p < steps; p++) {/p + 1 < steps; p++) {/ :: gemm.odd_nn[simple] :: gemm
gemm.cl :: s/row\[r\] = (ulong)min(i0 + r, m - 1) \* lda/row[r] = (ulong)min(i0 + r, m - 1) * ldb/ :: gemm.odd_nt[simple] :: gemm
gemm_epilogue.clh :: s/IF_RESIDUAL v += LOAD(DTC/IF_RESIDUAL v = LOAD(DTC/ :: gemm.ties_f16[simple] :: gemm
gemm_epilogue.clh :: s/a < 0x38800000u ? as_uint(small) : r/r/ :: known.f16_epilogue :: known
gemm_epilogue.clh :: s/fma(beta, LOAD(DTC, c, c_at + at_), value_)/fma(beta, LOAD(DTC, c, at_), value_)/ :: gemm.beta_one[simple] :: gemm
gemm_epilogue.clh :: s/r = select(r, (uint16)(0x7f800000u), r > (uint16)(0x477fe000u))/r = r/ :: known.f16_epilogue_by_16 :: known
gemm_epilogue.clh :: s/r = select(r, as_uint16(small), a < (uint16)(0x38800000u))/r = r/ :: known.f16_epilogue_by_16 :: known
gemm_epilogue.clh :: s/r > 0x477fe000u ? 0x7f800000u : r/r/ :: known.f16_epilogue :: known
gemm_epilogue.clh :: s/return v < 0.0f ? 0.0f : v;/return v <= 0.5f ? 0.0f : v;/ :: gemm.bias_relu[simple] :: gemm
gemm_epilogue.clh :: s/return x > 0.0f ? 1.0f : 0.0f;/return x >= 0.0f ? 1.0f : 0.0f;/ :: gemm.dact_relu_nn[simple] :: gemm
gemm_epilogue.clh :: s/v += bias\[bias_at + (j)\]/v += bias[(j)]/ :: gemm.bias_relu[simple] :: gemm
gemm_epilogue.clh :: s/vload16(0, bias + bias_at + (j))/vload16(0, bias + bias_at)/ :: gemm.bias_relu[lane] :: gemm
gemm_lane.cl :: s/if (last \&\& skip == 0 \&\& height == MR/if (skip == 0 \&\& height == MR/ :: gemm.micro_panels_nn[lane_6x1_kc192_8x8] :: gemm
gemm_lane.cl :: s/place.columns = min(grid->nt, grid->column_tiles - place.first_column)/place.columns = grid->nt/ :: gemm.micro_panels_nn[lane_6x1_kc192_8x8] :: gemm
gemm_lane.cl :: s/place.z = (uint)(block \/ grid->per_item)/place.z = 0/ :: gemm.batch_nn[lane] :: gemm
gemm_mma.cl :: s/ci = i0 + line \/ 16 \* WM/ci = i0 + line \/ 16 * 16/ :: gemm.tails_nn[mma_f16] :: gemm
gemm_mma.cl :: s/k0 \* lda + i0 : i0 \* lda + k0/i0 : i0 * lda/ :: gemm.tails_nn[mma_f16_sm80_32x32x32_16x16_s2_k2] :: gemm
gemm_sum.cl :: s/for (uint s = 0; s < splits; s++)/for (uint s = 1; s < splits; s++)/ :: gemm.deep_small[tile] :: gemm
lanes.clh :: s/convert_uint16(a >> 32) ^ c\[3\] ^ key1/convert_uint16(a >> 32) ^ c[3] ^ key0/ :: attention.dropout[lane] :: attention
layernorm.cl :: s/end = min(rows, row + block_rows)/end = row + block_rows/ :: layernorm.blocks[row] :: layernorm
layernorm.cl :: s/float rstd = 1.0f \/ sqrt((clt_sum16(sum) + tail) \/ (float)cols + eps)/float rstd = 1.0f \/ sqrt((clt_sum16(sum) + tail) \/ (float)(cols - 1) + eps)/ :: layernorm.bf16[row] :: layernorm
layernorm.cl :: s/for (; row < end; row++) {/for (; row + 1 < end; row++) {/ :: layernorm.blocks[row] :: layernorm
layernorm.cl :: s/mean_out\[mean0 + (row)\] = (mean)/mean_out[mean0 + (row)] = (rstd)/ :: layernorm.odd[group] :: layernorm
layernorm.cl :: s/part_q += q0 + block \* cols/part_q += q0/ :: layernorm.blocks[row] :: layernorm
layernorm.cl :: s/ - CENTRED(load, c) \* s2) \* rstd)/ - CENTRED(load, c) * s2))/ :: layernorm.odd[group] :: layernorm
layernorm.cl :: s/sum2 = fma(g, CENTRED(LOAD4, c), sum2)/sum2 = fma(g, CENTRED(LOAD4, c), g)/ :: layernorm.bf16[group] :: layernorm
layernorm.cl :: s/tail += LOAD(DT, x, c);/;/ :: layernorm.odd[row] :: layernorm
layernorm.cl :: s/tail2 = fma(g, CENTRED(LOAD, c), tail2)/tail2 += CENTRED(LOAD, c)/ :: layernorm.odd[row] :: layernorm
layernorm.cl :: s/uint cols, float eps)/uint cols, float eps_)/;s/(float)cols + eps)/(float)cols + 1e-5f)/ :: layernorm.nobias[group] :: layernorm
mma.clh :: s/MMA_ROUND_EVEN ? 0x0fffu + (word >> 13 \& 1u) : 0x1000u/0u/ :: known.tf32_away :: known
philox.clh :: s/(uint)(p1 >> 32) \^ index_high \^ s.key0/(uint)(p1 >> 32) ^ s.key0/ :: dropout.odd[lane] :: dropout
philox.clh :: s/^#define PHILOX_ORDER (ulong8)(0, 4, 1, 5, 2, 6, 3, 7)/#define PHILOX_ORDER (ulong8)(0, 1, 2, 3, 4, 5, 6, 7)/ :: dropout.odd[lane] :: dropout
philox.clh :: s/round < 10; round++/round < 9; round++/ :: dropout.odd[lane] :: dropout
reduce.cl :: s/(place) == (found) ? (grad) : 0.0f/(place) >= (found) ? (grad) : 0.0f/ :: reduce.max_all[group] :: reduce
reduce.cl :: s/float sum = START, /float sum = 0.0f, / :: reduce.max_nan_middle[flat] :: reduce
reduce.cl :: s/found = min(found, (i0 \* r1 + i1) \* r2 + i)/found = (i0 * r1 + i1) * r2 + i/ :: reduce.max_f16[group] :: reduce
reduce.cl :: s/grad\[c\] = LOAD(DYT, dy, c) \* factor/grad[c] = LOAD(DYT, dy, c)/ :: reduce.mean_bf16[lane] :: reduce
reduce.cl :: s/hit |= (v == (float16)(top))/hit = (v == (float16)(top))/ :: reduce.max_all[row] :: reduce
reduce.cl :: s/min(tile, k2 - begin)/min(tile, k2)/ :: reduce.sum_middle[flat] :: reduce
reduce.cl :: s|ulong o = group,|ulong o = group / 2,| :: reduce.sum_all[group] :: reduce
reduce.cl :: s/sum = reduce_take(reduce_lanes(sum16), sum)/sum = reduce_lanes(sum16)/ :: reduce.sum_all[row] :: reduce
reduce.cl :: s/x += x0 + o0 \* ks0 + o1 \* ks1 + o2 \* ks2/x += x0 + o0 * ks0 + o2 * ks2/ :: reduce.mean_bf16[row] :: reduce
softmax.cl :: s/c = cols \/ LANES \* LANES; c < cols; c++)$/c = cols \/ LANES * LANES + 1; c < cols; c++)/ :: softmax.odd[row] :: softmax
softmax.cl :: s/dot = clt_group_sum(scratch, dot + clt_sum4(dot4))/dot = dot + clt_sum4(dot4)/ :: softmax.bf16[group] :: softmax
softmax.cl :: s/return dot + clt_sum16(dot16)/return clt_sum16(dot16)/ :: softmax.odd[row] :: softmax
softmax.cl :: s/float norm = NORM(ONE, clt_group_sum(scratch, sum + clt_sum4(sum4)));/float norm = NORM(ONE, clt_group_sum(scratch, sum));/ :: softmax.bf16[group] :: softmax
softmax.cl :: s/min(rows - row, (ulong)per_item)/(ulong)per_item/ :: softmax.chunks[row] :: softmax
softmax.cl :: s/name(clt_log)(sum)/(sum)/ :: log_softmax.odd[group] :: log_softmax
softmax.cl :: s/sum4 += clt_exp_down4/sum4 = clt_exp_down4/ :: softmax.far_row[group] :: softmax
softmax.cl :: s/y - (chunk - r) \* cols/y - chunk * cols/ :: softmax.tail[row] :: softmax
tile_counter.clh :: s/atomic_xchg(counter, 0u);/;/ :: linear.odd[gemm] :: linear
unary.cl :: s/STREAM16(DT, y, done + p, CLT_CAT(FN, _last16)(LOAD16(DT, x, done + p), vload16(0, part + p)))/STREAM16(DT, y, done + p, CLT_CAT(FN, _last16)(LOAD16(DT, x, done + p), vload16(0, part)))/ :: gelu.stages[lane] :: gelu
unary.cl :: s/fma(-y, y, (type)(1.0f))/fma(y, y, (type)(1.0f))/ :: tanh.one[flat] :: tanh
unary.cl :: s/x += done;/;/ :: gelu.stages[lane] :: gelu
unary.cl :: s/x > (type)(0.0f))/x >= (type)(0.0f))/ :: relu.tail[flat] :: relu
gemm_lane.cl :: s/(k0 + kn) & (SUM_STEPS - 1)) == 0/(k0 + kn) \& (SUM_STEPS - 1)) == 1/;s/starts = .*/starts = k0 == 0;/ :: gemm.equal_nn[lane] :: gemm
gemm_lane.cl :: s/if (!first) {/if (false) {/ :: gemm.chains[lane] :: gemm
gemm_lane.cl :: s/total + mt \* nt \* (MR \* NR), k0/total, k0/ :: gemm.chains[lane] :: gemm
gemm.cl :: s/min(left, (uint)SUM_STEPS)/left/ :: gemm.equal_tn[simple] :: gemm
gemm.cl :: s/min(k - p, (uint)(SUM_STEPS \* VW))/k - p/ :: gemm.equal_nt[simple] :: gemm
embedding.cl :: s/min(all - j, (uint)(2 \* SUM_STEPS))/all - j/ :: embedding.equal[row] :: embedding
embedding.cl :: s/LONG_SUM_ADD(float16, sum, rest, s0 + s1)/sum = s0 + s1/ :: embedding.equal[row] :: embedding
embedding.cl :: s/min(all - j, (uint)SUM_STEPS)/all - j/ :: embedding.equal[row] :: embedding
embedding.cl :: s/LONG_SUM_ADD(float, sum, rest, s);/sum = s;/ :: embedding.equal[row] :: embedding
embedding.cl :: s/LONG_SUM_ADD(float, sum, rest, (s0 + s1) + (s2 + s3))/sum = (s0 + s1) + (s2 + s3)/ :: embedding.equal[flat] :: embedding
batch_norm_columns.clh :: s/KEEP##N(whole, KEPT##N(whole) + KEPT##N(chain));/KEEP##N(whole, KEPT##N(chain));/ :: instance_norm.chains[lane] :: instance_norm
batch_norm_columns.clh :: s/KEEP##N(whole, KEPT##N(whole) + KEPT##N(chain));/KEEP##N(whole, KEPT##N(chain));/ :: instance_norm.chains[flat] :: instance_norm
batch_norm.cl :: s/FOLD_INTO(type, N, all_squares, squares)/KEEP##N(squares, (type)(0.0f));/ :: instance_norm.chains[lane] :: instance_norm
batch_norm.cl :: s/FOLD_INTO(type, N, all_products, products)/KEEP##N(products, (type)(0.0f));/ :: instance_norm.chains[lane] :: instance_norm
batch_norm_columns.clh :: s/end = min(all, row + SUM_STEPS)/end = min(all - 1, row + SUM_STEPS)/;s/if (row >= all)/if (row >= all - 1)/ :: instance_norm.chains[lane] :: instance_norm
dice.cl :: s/sums\[k\] += chain\[k\]/sums[k] = chain[k]/ :: dice_loss.chains :: dice_loss
dice.cl :: s/first = stop;/break;/ :: dice_loss.chains :: dice_loss
pool.cl :: s|min(a.window - s.before, (a.in - 1 - s.first) / APART(a) + 1)|a.window - s.before| :: adaptive_avg_pool.global_stages[lane] :: adaptive_avg_pool
loss.cl :: s/counted += rows\[3 \* r + 1\];/counted += rows[3 * r + 1] != 0.0f;/ :: cross_entropy.many_parts[row] :: cross_entropy
reduce.cl :: s/if (++taken == SUM_STEPS)/if (++taken == 0)/ :: reduce.equal_outer[flat] :: reduce
reduce.cl :: s/if (taken >= SUM_STEPS)/if (taken == 0)/ :: reduce.equal_outer[lane] :: reduce
reduce.cl :: s/if (taken >= SUM_STEPS)/if (taken == 0)/ :: reduce.equal_inner[row] :: reduce
conv_depthwise.cl :: s/all\[t\] + sum\[t\]/sum[t]/ :: conv2d.equal_depthwise[depthwise] :: conv2d
conv_depthwise.cl :: s/if (places++ == SUM_STEPS)/if (false)/ :: conv2d.equal_depthwise[depthwise] :: conv2d
conv_depthwise.cl :: s/end = min(row + block_rows, rows)/end = min(row + block_rows - 1, rows)/ :: conv2d.equal_depthwise_rows[depthwise] :: conv2d
conv_depthwise.cl :: s/LONG_SUM_ADD(float, sum, rest, part/LONG_SUM_ADD(float, rest, sum, part/ :: conv2d.equal_depthwise_rows[depthwise] :: conv2d
conv_depthwise.cl :: s/b < blocks; b++/b < min(blocks, 64u); b++/ :: conv2d.equal_depthwise_rows[depthwise] :: conv2d
conv_winograd.cl :: s/y0 + IN <= height \&\&/y0 + IN <= height + 1 \&\&/ :: conv2d.multiples_of_4[winograd] :: conv2d
conv_winograd.cl :: s/x0 + IN <= width;/x0 + IN <= width + 1;/ :: conv2d.multiples_of_4[winograd] :: conv2d
lars.cl :: s/first_norm > 0.0f ? share : 1.0f/share/ :: update.lars_zero[lane] :: update
lars.cl :: s/second_norm > 0.0f ? coefficient/first_norm > 0.0f ? coefficient/ :: update.lars_still[lane] :: update
lamb.cl :: s/counted > 0.0f \&\& second_norm > 0.0f/second_norm > 0.0f/ :: update.lamb_zero[lane] :: update
lamb.cl :: s/counted > 0.0f \&\& second_norm > 0.0f/counted > 0.0f/ :: update.lamb_still[lane] :: update
muon.cl :: s/fmax(first_norm, 1e-7f)/first_norm/ :: update.muon_still[lane] :: update
combine.cl :: s/share = ones == LEVELS ? factor : 1\.0f/share = factor/ :: known.combine_flat :: known
combine.cl :: s/sum = LOADV(f32, level##n, k) + sum;/sum = LOADV(f32, level##n, k) - sum;/ :: known.combine_lane :: known
combine.cl :: s/from = first ? value : start, \*to = first ? start : value;/from = value, *to = start;/ :: known.combine_flat :: known
batch_norm.cl :: s/select(v, new_v, zero == (type)(0\.0f))/new_v/ :: batch_norm.relu_nan[flat] :: batch_norm
batch_norm.cl :: s/select(v, (type)(0\.0f), (v) < (type)(0\.0f))/select((type)(0.0f), v, (v) > (type)(0.0f))/ :: batch_norm.relu_nan[lane] :: batch_norm
batch_norm.cl :: s/sum_count\[sum_count0 + at\] = count;/sum_count[sum_count0] = count;/ :: batch_norm.moments_47x45[winograd] :: batch_norm
pool.cl :: s/best\[q\] = (INTS##N)(CODE(by_d.before, by_h.before, by_w.before));/best[q] = (INTS##N)(0);/ :: max_pool.lowest[flat] :: max_pool
pool.cl :: s/(((i)\*high\.window + (j))/(((i)*wide.window + (j))/ :: max_pool.distinct[flat] :: max_pool
pointwise_loss.cl :: s/return select(s, d, d != d);/return s;/ :: l1.nan[group] :: l1
pointwise_loss.cl :: s/(as_uint16(0\.0f - p) ^ as_uint16(h))/(as_uint16(p) ^ as_uint16(0.0f - h))/ :: bce_with_logits.zeros[row] :: bce_with_logits
conv_depthwise.cl :: s/o0 \* stride0 == a0 \&\& // :: conv3d.distinct_depthwise[depthwise] :: conv3d
conv_depthwise.cl :: s/uint i2 = q2 \* stride2 + t2 \* dilation2/uint i2 = q2 * stride2 + t2 * dilation1/ :: conv2d.depthwise_uneven[depthwise] :: conv2d
conv_winograd.cl :: s/tile_x \* OUT - padding_x;/tile_x * OUT - padding_y;/ :: conv2d.uneven_padding[winograd] :: conv2d
conv_winograd.cl :: s/bool whole = y0 + OUT <= height \&\&/bool whole = y0 + OUT <= height + 1 \&\&/ :: conv2d.uneven_padding[winograd] :: conv2d
conv_winograd.cl :: s/o\[3\] = v\[1\] - v\[3\];/o[3] = v[3] - v[1];/ :: conv2d.chunks[winograd] :: conv2d
conv.cl :: s/row >= first + rows/row > first + rows/ :: conv2d.chunks[matrix] :: conv2d
rotary.cl :: s/max(offsets\[offsets0 + (at)\], 0)/offsets[offsets0 + (at)]/ :: rotary.stray[flat] :: rotary
attention_group.cl :: s/sum_v, 1\.0f, have, accumulate_v/sum_v, 1.0f, have, accumulate_k/ :: attention.separate[group] :: attention
spike.clh :: s/!isfinite(as_float(st\[ST_LOSS_VARIANCE\])) || // :: update.spike_off[lane] :: update
conv_depthwise.cl :: s/define BIAS16 vload16(0, bias + bias0 + c)/define BIAS16 vload16(0, bias + bias0)/ :: conv2d.depthwise[depthwise] :: conv2d
dice.cl :: s/target < (CLASSES == 1/target <= (CLASSES == 1/ :: dice_loss.stray[voxel] :: dice_loss
conv_implicit.cl :: s/(int)m0 \* step0/(int)m0 * step1/ :: conv3d.distinct[implicit] :: conv3d
conv_winograd.cl :: s/squares - sum \* (sum \/ places)/squares - sum * (sum \/ (OUT * OUT))/ :: batch_norm.moments_9x13[winograd] :: batch_norm
attention_lane.cl :: s/bool add = accumulate_q || round > 0;/bool add = round > 0;/ :: attention.one[lane] :: attention
attention_group.cl :: s/mine > 0 ? top + log(total) : 0.0f/top + log(total)/ :: attention.lengths[group] :: attention
attention_group.cl :: s/COLUMN(p_) < HEAD_SIZE)/COLUMN(p_) < WIDTH)/ :: attention.second_tile[group] :: attention
attention_group.cl :: s/lid < rows ? lse\[lid\] : 0.0f/lid + 1 < rows ? lse[lid] : 0.0f/ :: attention.one[group] :: attention
attention.clh :: s/return (uint)clamp(length, 0, (int)tk)/return (uint)max(length, 0)/ :: attention.lengths[row] :: attention
attention.clh :: s/uint odd = -(at \& 1)/uint odd = -(at \& 1 ^ 1)/ :: attention.dropout[row] :: attention
kv_cache.cl :: s/y\[y0 + i\] = x\[x0 + n \* width + c\]/y[y0 + i] = x[x0 + c]/ :: kv_cache.first[flat] :: kv_cache
batch_norm.cl :: s/type middle = sum \/ count;/type middle = sum \/ (float)ranks;/ :: batch_norm.ranks[flat] :: batch_norm
spike.clh :: s/steps >= window \&\& deviation/steps > window \&\& deviation/ :: update.spike_tie[group] :: update
spike.clh :: s/min(steps + 1u, window);/steps + 1u;/ :: update.spike_tie[group] :: update
spike.clh :: s/clamp(away, -SPIKE_MOST \* deviation, SPIKE_MOST \* deviation)/min(away, SPIKE_MOST * deviation)/ :: update.spike_tie[group] :: update
spike.clh :: s/(1\.0f - share) \* fma(share \* away, away, v)/(1.0f - share) * fma(away, away, v)/ :: update.spike_norm[group] :: update
spike.clh :: s/st\[ST_JUDGED\] = st\[ST_LOSS_MEAN\] = st\[ST_NORM_MEAN\] = 0u/st[ST_JUDGED] = st[ST_LOSS_MEAN] = 0u/ :: update.spike_norm[group] :: update
muon.cl :: s/GET(m, mo + from + i)) \* trust/GET(m, mo + from + i))/ :: update.muon[group] :: update
lars.cl :: s/value = KEPT(fma((REALS)(-lr), d, value), value);/value = fma((REALS)(-lr), buf, value);/ :: update.lars[group] :: update
lamb.cl :: s/float rate = lr \* GET_TRUST;/float rate = lr;/ :: update.lamb[group] :: update
lion.cl :: s/REALS mixed = fma((REALS)(rest1), change, m1);/REALS mixed = fma((REALS)(rest2), change, m1);/ :: update.lion[group] :: update
lion.cl :: s/value \*= 1\.0f - lr \* decay;/value -= lr * decay;/ :: update.lion[group] :: update
adam.clh :: s/#define ADAM_DECAY d = .*/#define ADAM_DECAY value *= 1.0f - lr * decay;/ :: update.adam[group] :: update
dice.cl :: s/SQUARED ? 2\.0f \* p\[c\] : 1\.0f/1.0f/ :: dice_loss.squared[voxel] :: dice_loss
dice.cl :: s/SIGMOID ? g\[c\] \* (1\.0f - p\[c\]) : g\[c\] - mean/SIGMOID ? g[c] : g[c] - mean/ :: dice_loss.sigmoid[voxel] :: dice_loss
dice.cl :: s/share = WEIGHT_OF(c) \/ (float)(CLASSES - FIRST)/share = WEIGHT_OF(c) \/ (float)CLASSES/ :: dice_loss.volume[voxel] :: dice_loss
dice.cl :: s/bool counts = c >= FIRST;/bool counts = true;/ :: dice_loss.volume[voxel] :: dice_loss
dice.cl :: s/sums\[0\] + sums\[1\] + smooth/sums[0] + sums[1]/ :: dice_loss.squared[voxel] :: dice_loss
dice.cl :: s/if (sample >= sb\[sb0 + SB_VALID\] || !dice_counts(t, ignore))/if (!dice_counts(t, ignore))/ :: dice_loss.image[voxel] :: dice_loss
dice.cl :: s/int t = (int)target\[target0 + v\];/int t = (int)target[target0 + v % voxels];/ :: dice_loss.image[voxel] :: dice_loss
dropout.cl :: s/index % 4 == 0 \&\& QUADS(GT, y)/QUADS(GT, y)/ :: dropout.odd[flat] :: dropout
cross_entropy.cl :: s/HAS_IGNORE \&\& second == ignore ? first : second/second/ :: cross_entropy.mixed_smooth[row] :: cross_entropy
cross_entropy.cl :: s/return (1\.0f - smoothing) \* cross_entropy_hot_weight(t, w) + smoothing \* w\.mean_weight;/return cross_entropy_hot_weight(t, w);/ :: cross_entropy.weights_smooth[row] :: cross_entropy
cross_entropy.cl :: s/second\[second0 + (r)\]/second[second0]/ :: cross_entropy.mixed_smooth[row] :: cross_entropy
cross_entropy.cl :: s/in_range(t\.first, cols) \&\& cross_entropy_in_range(t\.second, cols)/in_range(t.first, cols)/ :: cross_entropy.mixed_stray[row] :: cross_entropy
cross_entropy.cl :: s/(c == t\.second ? 1\.0f - t\.share : 0\.0f)/(c == t.second \&\& c != t.first ? 1.0f - t.share : 0.0f)/ :: cross_entropy.mixed[row] :: cross_entropy
cross_entropy.cl :: s/(1\.0f - t\.share) \* WEIGHT_OF(w, t\.second) \* (log_sum - (row\.xm - row\.top))/(1.0f - t.share) * WEIGHT_OF(w, t.first) * (log_sum - (row.xm - row.top))/ :: cross_entropy.weights_mixed[row] :: cross_entropy
cross_entropy.cl :: s/sum += WEIGHT16_OF(w, c) \* (LOAD16(DT, x, c) - top)/sum += WEIGHT16_OF(w, 0) * (LOAD16(DT, x, c) - top)/ :: cross_entropy.weights_wide[row] :: cross_entropy
pool.cl :: s/(a\.in - 1 - s\.first) \/ APART(a) + 1/a.in - s.first/ :: max_pool.dilated[flat] :: max_pool
pool.cl :: s/min(start + a\.window, a\.in + a\.padding) - start/a.window/ :: avg_pool.ceil[flat] :: avg_pool
pool.cl :: s/from % a\.dilation == 0 ? from/true ? from/ :: max_pool.dilated[flat] :: max_pool
pool.cl :: s/const int size = SIZE(i, deep) \* SIZE(j, high)/const int size = SIZE(i, deep) * SIZE(i, high)/ :: avg_pool.without_pad[flat] :: avg_pool
pool.cl :: s/const ulong step = (ulong)APART(wide) \* channels, row_apart = APART(high) \* row_step/const ulong step = (ulong)APART(wide) * channels, row_apart = APART(wide) * row_step/ :: max_pool.dilated[flat] :: max_pool
upsample.cl :: s/p\.second = min(p\.first + 1, a\.in - 1);/p.second = p.first + 1 < a.in ? p.first + 1 : 0;/ :: upsample.bilinear[flat] :: upsample
upsample.cl :: s/clamp(o \* a\.multiply + a\.add, 0, (a\.in - 1) \* a\.divide)/max(o * a.multiply + a.add, 0)/ :: upsample.bilinear_exact[flat] :: upsample
rotary.cl :: s/uint c = i + pairs;/uint c = i;/ :: rotary.part[flat] :: rotary
gemm_windows.clh :: s/window->image += w->in\[0\];/;/ :: conv3d.odd[implicit] :: conv3d
gemm_windows.clh :: s/window->at\[1\] = -w->padding\[1\];/window->at[1] = 0;/ :: conv2d.odd[implicit] :: conv2d
gemm_windows.clh :: s/\& 0x1fffff)/\& 0xfffff)/ :: conv3d.odd[implicit] :: conv3d
gemm_window_runs.clh :: s/p->t1 = p->t1 == w->runs\[1\] ? 0 : p->t1;/;/ :: conv3d.odd[implicit] :: conv3d
gemm_window_runs.clh :: s/(uint)i0 < (uint)w->in\[0\] \&\& //  :: conv3d.odd[implicit] :: conv3d
conv.cl :: s/t0_ \* dilation0 - padding0/t0_ * dilation1 - padding0/ :: conv3d.distinct[matrix] :: conv3d
conv.cl :: s/- (t1_ - t0_ \* kernel1) \* dilation1, o1_/- (t1_ - t0_ * kernel1) * dilation2, o1_/ :: conv3d.distinct[matrix] :: conv3d
conv.cl :: s/START(float16, vload16(0, bias + base + c))/START(float16, vload16(0, bias + c))/ :: conv_transpose2d.wide_groups[matrix] :: conv_transpose2d
conv.cl :: s/float one = START(float, bias\[base + c\])/float one = START(float, bias[c])/ :: conv_transpose2d.groups[matrix] :: conv_transpose2d
conv.cl :: s/o2_ \* stride2 == p2_;/true;/ :: conv_transpose2d.f16[matrix] :: conv_transpose2d
conv_implicit.cl :: s/(uint)(p1 - p0 \* size1) \* stride1/(uint)(p1 - p0 * size1) * stride2/ :: conv3d.distinct[implicit] :: conv3d
conv_implicit.cl :: s/uint t2 = (uint)(first2 + (int)m2 \* step2)/uint t2 = (uint)(first1 + (int)m2 * step2)/ :: conv3d.distinct[implicit] :: conv3d
conv_depthwise.cl :: s/uint a1 = q1 + padding1 - t1 \* dilation1, o1/uint a1 = q1 + padding2 - t1 * dilation1, o1/ :: conv3d.distinct_depthwise[depthwise] :: conv3d
spike.clh :: s/loss_z > loss_limit/loss_z >= loss_limit/ :: update.spike_tie[group] :: update
spike.clh :: s/norm_z > norm_limit/norm_z >= norm_limit/ :: update.spike_tie[group] :: update
spike.clh :: s/deviation > 0\.0f) {/true) {/ :: update.spike_tie[group] :: update
spike.clh :: s/ || !isfinite(as_float(st\[ST_NORM_VARIANCE\]))// :: update.spike_norm[group] :: update
dropout.cl :: s/(uint)block <= 0xffffffffu - VEC/true/ :: dropout.odd[lane] :: dropout
loss.cl :: s/(sb\[SB_FLAGS\] \& SB_FLAG_APART)/false/ :: mse.odd[group] :: mse
lars.cl :: s/REALS d = GET(g, go + base + i) \* clip;/REALS d = GET(g, go + base + i);/ :: update.lars[lane] :: update
attention_group.cl :: s/n, h, i0 + line, tq, tk) + first;/n, h, i0 + line, tq, tk);/ :: attention.dropout[group] :: attention
rotary.cl :: s/OFFSET((row) \/ places)/OFFSET((row) % places)/ :: rotary.far[lane] :: rotary
rotary.cl :: s/#define POSITION(row) OFFSET(row)/#define POSITION(row) OFFSET((row) % places)/ :: rotary.rows[lane] :: rotary
conv_implicit.cl :: s/(ulong)group \* per_group + k) \* kernel0/(ulong)k) * kernel0/ :: conv2d.groups_plain[implicit] :: conv2d
dropout.cl :: s/(load(GT, r, at) + (v))/(v)/ :: dropout.residual_quads[flat] :: dropout
dropout.cl :: s/RESIDUAL ? r + from : r/r/ :: dropout.residual_odd[lane] :: dropout
softmax.cl :: s/uint whole = cols \/ LANES \* LANES;/uint whole = cols;/ :: log_softmax.far_row[row] :: log_softmax
softmax.cl :: s/r++, x += cols, y += cols) {/r++, x += cols) {/ :: softmax.far_row[row] :: softmax
channels.cl :: s/left = inner - (uint)(base % inner);/left = inner;/ :: cast.channels_f32[lane] :: cast
functions.clh :: s/(x - (whole - CLT_K(1\.0f))) \/ whole;/(x - (whole - CLT_K(1.0f)));/ :: bce_with_logits.zeros[row] :: bce_with_logits
conv_winograd.cl :: s/STORE_CHANNELS16(v, ((y)\*IN + (x)) \* tiles \* channels + c, value)/STORE_CHANNELS16(v, ((y)*IN + (x)) * tiles * channels, value)/ :: conv2d.uneven_padding[winograd] :: conv2d
gemm_window_tiles.clh :: s/WINDOW_IN(s, i, 1, by1) \& WINDOW_IN(s, i, 2, by0))/WINDOW_IN(s, i, 1, by1))/ :: conv3d.groups[implicit] :: conv3d
gemm_lane.cl :: s/vstore2(LOAD2(dt, (from) + (MR \& 12)), 0, (out) + (MR \& 12))/vstore2(LOAD2(dt, (from) + (MR \& 8)), 0, (out) + (MR \& 12))/ :: gemm.micro_panels_tn[lane_6x1_kc192_8x4_packed] :: gemm
gemm_mma.cl :: s/whole_a \&\& whole_b ? depth \/ BK : 0;/whole_a \&\& whole_b ? (depth + BK - 1) \/ BK : 0;/ :: gemm.windows_tn_stride[mma_bf16] :: gemm
attention_mma.clh :: s/attention_low(min(i, tq - 1), tq, keys SPANS)/attention_low(i, tq, keys SPANS)/ :: attention.f16_documents[mma] :: attention
attention_mma.clh :: s/at + 16 \* i \* PITCH + 16 \* s, scratch)/at + 16 * i * PITCH, scratch)/ :: attention.f16[mma] :: attention
END
}

# The fields of a line: file, edit, checks, op.
split() {
    file=${1%% :: *}
    local rest=${1#* :: }
    edit=${rest%% :: *}
    rest=${rest#* :: }
    checks=${rest%% :: *}
    op=${rest#* :: }
}

# code: a kernel file without its comments.
code() {
    awk '{
        out = ""
        for (line = $0; line != ""; comment = !comment) {
            at = index(line, comment ? "*/" : "/*")
            if (!comment)
                out = out (at ? substr(line, 1, at - 1) : line)
            if (!at)
                break
            line = substr(line, at + 2)
        }
        print out
    }'
}

# idle FILE EDIT: prints the sed commands of the edit that do not change the code of the file.
idle() {
    local command from=$CLTRAIN_BUILD_DIR/kernels/$1
    while IFS= read -r command; do
        [ "$(sed "$command" "$from" | code)" != "$(code <"$from")" ] || printf '%s\n' "$command"
    done <<<"${2//;s\//$'\n's/}"
}

# try NUMBER LINE: leaves a line in results/NUMBER: "ok" or what is wrong. Stops the checker as soon as the op has failed.
try() {
    local file edit checks op kernels=$work/kernels$1 log=$work/log$1 checker code
    split "$2"
    : >"$log"
    cp -r "$CLTRAIN_BUILD_DIR/kernels" "$kernels"
    sed -i "$edit" "$kernels/$file"
    CLTRAIN_KERNEL_DIR=$kernels timeout "$hang" "$CLTRAIN" verify --mode correct -t "$checks" --seed 9 >"$log" 2>&1 </dev/null &
    checker=$! # that of timeout, which passes signals on
    while kill -0 "$checker" 2>/dev/null && ! grep -q -E "^FAIL +$op\\." "$log"; do sleep 0.1; done
    kill "$checker" 2>/dev/null
    wait "$checker"
    code=$?
    # An edit that writes far outside may crash the process, which is detected as well.
    if [ "$code" -ge 128 ] || grep -q -E "^FAIL +$op\\." "$log"; then
        echo ok >"results/$1"
    else
        echo "code $code, and no failure of $op names this edit: $2" >"results/$1"
    fi
    rm -rf "$kernels" "$log"
    [ -z "${MUTATIONS_LOUD:-}" ] || echo "$(<"results/$1") $2"
}

# exists PATTERN: whether a check has that name, without its mode; [ is not special, as in the checker.
"$CLTRAIN" verify --mode list | sed -n 's|/correct$||p' >names
exists() {
    local name pattern=${1//[/\\[}
    [[ $1 != *'*'* ]] && { grep -q -x -F -- "$1" names || grep -q -F -- "$1[" names; } && return
    while IFS= read -r name; do
        # shellcheck disable=SC2053
        [[ $name == $pattern ]] && return
    done <names
    return 1
}

mkdir results
n=0
while IFS= read -r line; do
    [ -n "${MUTATIONS:-}" ] && [[ ! $line =~ $MUTATIONS ]] && continue
    n=$((n + 1))
    split "$line"
    nothing=$(idle "$file" "$edit")
    if [ -n "$nothing" ]; then
        fail "the command $nothing changes no code of $file: $line"
    elif ! exists "$checks"; then
        fail "no check is called $checks: $line"
    else
        pass
        lines[n]=$line
    fi
done < <(list)
[ "$n" -gt 0 ] || fail "no edit matches '${MUTATIONS:-}'"
[ "${1:-}" = all ] || finish

# Compiling is most of the time, and PoCL compiles a program on one core.
at_once=${MUTATIONS_AT_ONCE:-$(nproc)}
for i in "${!lines[@]}"; do
    try "$i" "${lines[i]}" &
    [ "$(jobs -rp | wc -l)" -lt "$at_once" ] || wait -n
done
wait
for i in "${!lines[@]}"; do
    if [ "$(cat "results/$i" 2>&1)" = ok ]; then pass; else fail "$(cat "results/$i" 2>&1)"; fi
done
finish
