#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# Defects inserted into the kernels, one line each: the checker on the simulated NVIDIA GPU must report every one. If the text to be
# changed no longer exists the test fails, so that the list follows the kernels.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$CLTRAIN_SOURCE_DIR/tests/e2e/ptx_exec_lib.sh"

kernels=$CLTRAIN_BUILD_DIR/kernels
reported=0

# defect NAME FILE OLD NEW PATTERN: replaces the first OLD in the file by NEW; then a check whose name
# matches must fail, or a rule must be violated. Without the defect the same checks pass: tests of the label
# quick and test_ptx_exec_full.sh run them.
defect() {
    local name=$1 file=$2 old=$3 new=$4 pattern=$5 text how=
    text=$(cat "$kernels/$file" && echo .)
    if [[ $text != *"$old"* ]]; then
        : >"$out"
        fail "$name: $file does not hold the text that the defect replaces: $old"
        return
    fi
    rm -rf edited cache report
    mkdir edited
    printf '%s' "${text/"$old"/"$new"}" | sed '$ d' >"edited/$file"
    CLTRAIN_KERNEL_DIR=$work/edited guarded "$CLTRAIN" verify -t "$pattern" --mode correct --seed 3 >"$out" 2>&1 </dev/null
    if [ $? -eq 124 ]; then
        fail "$name: the check did not end"
    elif [ -s report ]; then
        how=$(head -n 1 report)
        pass
    elif grep -q -E '^(FAIL|MISTRUST) ' "$out"; then
        how=$(grep -E -A1 '^(FAIL|MISTRUST) ' "$out" | sed -n '2s/^ *//p')
        pass
    else
        fail "$name was not noticed by $pattern"
    fi
    [ -z "${how:-}" ] || reported=$((reported + 1))
    printf '%-38s %s\n' "$name" "${how:0:150}"
}

# --- matrix units: mma.clh ---
products='gemm.large_batch[mma_bf16]'
defect 'copies not waited for' mma.clh '"cp.async.wait_group " #n ";"' '""' "$products"
defect 'batches not closed' mma.clh '__asm volatile("cp.async.commit_group;" : : : "memory")' '' "$products"
defect 'no zeros behind the end' mma.clh '16, %2;"' '16; // %2"' 'gemm.vectors_nn[mma_bf16]'
defect 'ldmatrix results exchanged' mma.clh '"=r"(r.x), "=r"(r.y), "=r"(r.z)' '"=r"(r.x), "=r"(r.z), "=r"(r.y)' "$products"
defect 'ldmatrix not transposed' mma.clh 'm8n8.x4.trans.shared' 'm8n8.x4.shared' "$products"
defect 'operand B exchanged' mma.clh '"r"((b).x), "r"((b).y)' '"r"((b).y), "r"((b).x)' "$products"
defect 'operand A exchanged' mma.clh '"r"((a).y), "r"((a).z)' '"r"((a).z), "r"((a).y)' "$products"
defect 'tf32 not rounded' mma.clh 'cvt.rna.tf32.f32' 'mov.b32' 'gemm.blocks_nn[mma_tf32]'
defect 'bf16 multiplied as f16' mma.clh '#define MMA_TYPE "bf16"' '#define MMA_TYPE "f16"' "$products"

# --- gemm_mma.cl ---
defect 'one batch of copies too many left' gemm_mma.cl '#define STAGES_LEFT 1' '#define STAGES_LEFT 2' "$products"
defect 'main loop without its barrier' gemm_mma.cl 'barrier(CLK_LOCAL_MEM_FENCE); /* tile t is there' '/* tile t is there' "$products"
defect 'one step of k too few' gemm_mma.cl 'clamp(wide - CHUNK' 'clamp(wide - 1 - CHUNK' 'gemm.vectors_nn[mma_f16]'
defect 'one row too many' gemm_mma.cl '(int)row < rows' '(int)row <= rows' 'gemm.tails_nn[mma_f16]'
defect 'fragments of the next rows' gemm_mma.cl 'uint more_lines = (lines_first) ? odd : late' 'uint more_lines = (lines_first) ? late : odd' "$products"
defect 'warps of a row share columns' gemm_mma.cl '(warp & (WARPS_ACROSS - 1)) * WN' '0' "$products"

# --- gemm_wgmma.cl, wgmma.clh: on the device that has it, with the local memory that its large tiles need ---
export CLTRAIN_PTX_SM=90 CLTRAIN_PTX_LOCAL=232448
products='gemm.deep_tiles[wgmma_f16]'
large='gemm.tails_nn[wgmma_f16_128x256*'
wide='gemm.tails_nn[wgmma_bf16_192x256*'
# (A program in which one kind of instruction is missing is refused before it runs, see
# cl/program/retarget.c, so some defects move an instruction instead.)
defect 'wgmma: copies not fenced' gemm_wgmma.cl '        WGMMA_SEE();' '        if (t > 1000000) WGMMA_SEE();' "$products"
defect 'wgmma: half of the local memory' gemm_wgmma.cl '16 * (LOCAL_CHUNKS' '8 * (LOCAL_CHUNKS' "$products"
defect 'wgmma: copies not waited for' gemm_wgmma.cl '#define COPIES_LEFT 1' '#define COPIES_LEFT 2' "$products"
defect 'wgmma: main loop without its barrier' gemm_wgmma.cl 'barrier(CLK_LOCAL_MEM_FENCE);
#if LINE_SUMS' '#if LINE_SUMS' "$products"
defect 'wgmma: slots filled under products' gemm_wgmma.cl 'WGMMA_LEAVE(PRODUCTS_LEFT);' '' "$products"
defect 'wgmma: one batch of products too many' gemm_wgmma.cl '#define PRODUCTS_LEFT 1' '#define PRODUCTS_LEFT 2' "$products"
defect 'wgmma: sums used under products' gemm_wgmma.cl 'BRING(t + STEPS_AHEAD, fill);' 'sums[0][0] += 1.0f; BRING(t + STEPS_AHEAD, fill);' "$products"
defect 'wgmma: warps start other products' gemm_wgmma.cl 'left + now, right' 'left + now + (lid / 32 & 1) * 8, right' "$products"
defect 'wgmma: half of the swizzle' gemm_wgmma.cl 'chunk ^ (row & 7)' 'chunk ^ (row & 3)' "$products"
defect 'wgmma: B read in another layout' gemm_wgmma.cl '#define WGMMA_TRANSPOSE_B 1' '#define WGMMA_TRANSPOSE_B 0' "$products"
defect 'wgmma: a row too many' gemm_wgmma.cl ': row < lines)' ': row <= lines)' "$products"
defect 'wgmma: rows of C exchanged' gemm_wgmma.cl '(16 * warp + (MMA_LANE >> 2)) * LINE_FLOATS' '(16 * (warp ^ 1) + (MMA_LANE >> 2)) * LINE_FLOATS' "$products"
defect 'wgmma: parts of C in one place' gemm_wgmma.cl 'GROUPS_ACROSS * 64 * LINE_FLOATS' 'GROUPS_ACROSS * 32 * LINE_FLOATS' "$large"
defect 'wgmma: items without a share copy' gemm_wgmma.cl 'COPIERS < ITEMS && lid >= COPIERS' '0' "$wide"
defect 'wgmma: columns 64 on read elsewhere' wgmma.clh '(ulong)(8192 / 16) << 16' '(ulong)(4096 / 16) << 16' "$large"
defect 'wgmma: no fence before products' wgmma.clh 'SM90A "wgmma.fence.sync.aligned;\n" WGMMA_LINES' 'WGMMA_LINES SM90A "wgmma.fence.sync.aligned;\n"' "$products"
defect 'wgmma: sums not waited for' wgmma.clh 'wgmma.wait_group.sync.aligned 0;\n" : WGMMA' 'wgmma.wait_group.sync.aligned 1;\n" : WGMMA' "$products"
defect 'wgmma: one step of k too few' gemm_wgmma.cl 'clamp(wide - CHUNK' 'clamp(wide - 1 - CHUNK' "$products"
defect 'wgmma: windows after the last one' gemm_wgmma.cl 'step + (int)on < left' 'step + (int)on <= left' 'gemm.windows_tn_stride[wgmma_f16]'
defect 'wgmma: windows of B not swizzled' gemm_wgmma.cl 'CHUNK * (in_row ^ (step & 7))' 'CHUNK * in_row' 'gemm.windows_tn[wgmma_f16]'
defect 'wgmma: one swizzle for all steps' gemm_wgmma.cl '(to ^ CHUNK * (i * STEPS_TOGETHER & 7))' 'to' 'gemm.windows_forms_tn[wgmma_f16_64x256*'
defect 'wgmma: windows of B in one block' gemm_wgmma.cl '(block * BK + step) * ROW' 'step * ROW' 'gemm.windows_forms_tn[wgmma_f16_128x256*'
defect 'wgmma: the copied windows stay' gemm_wgmma.cl 'ADVANCE_WINDOWS(tile, from, walk);' '' 'gemm.windows_tn[wgmma_f16]'
lines='gemm.line_sums_bf16[wgmma_bf16]'
defect 'line sums: not fenced' wgmma.clh 'SM90A "wgmma.fence.sync.aligned;\n" WGMMA_LINES_ONES' 'WGMMA_LINES_ONES' "$lines"
defect 'line sums: ones of another type' wgmma.clh 'MMA_BF16 ? 0x3f803f80u' '!MMA_BF16 ? 0x3f803f80u' "$lines"
defect 'line sums: used under products' gemm_wgmma.cl 'BRING(t + STEPS_AHEAD, fill);' 'line_sums[0][0] += 1.0f; BRING(t + STEPS_AHEAD, fill);' "$lines"
defect 'line sums: every group has every turn' gemm_wgmma.cl 'turn = turn == 0 ? LINE_SUMS_TURNS(n) - 1 : turn - 1;' 'turn = 0;' "$lines"
defect 'line sums: rows exchanged' gemm_wgmma.cl 'i & 1 ? 2 : 0' 'i & 1 ? 0 : 2' "$lines"
defect 'line sums: one too many' gemm_wgmma.cl '&& line < m)' '&& line <= m)' "$lines"
defect 'line sums: those of all groups in one place' gemm_tiles.clh '((ulong)item * LINE_SUMS_TURNS(n) + (j0) / BN)' '((ulong)item * LINE_SUMS_TURNS(n))' "$lines"
defect 'line sums: one part not added' gemm_sum.cl 's < line_parts' 's + 1 < line_parts' "$lines"
defect 'line sums: old ones forgotten' gemm_tiles.clh 'add_line_sums ? *to_ + (sum) : (sum)' '(sum)' 'gemm.line_sums_added[wgmma_f16]'
# Stream-k: groups that have parts of several tiles, with and without parts of their own.
stream='gemm.tails_nn[wgmma_bf16_64x64_s4_stream5]'
own='gemm.tails_tn[wgmma_f16_64x64_s2_stream29]'
lines='gemm.line_sums_forms[wgmma_bf16_64x128_s2_stream5]'
defect 'stream: no barrier between tiles' gemm_wgmma.cl 'barrier(CLK_LOCAL_MEM_FENCE); /* the sums have been read' '/* the sums have been read' "$stream"
defect 'stream: sums of the tile before stay' gemm_wgmma.cl 'sums[i][j] = 0.0f;' 'sums[i][j] = share.k0 == 0 ? 0.0f : sums[i][j] + 1.0f;' "$stream"
defect 'stream: shares overlap by a step' gemm_tiles.clh 's->left = row.share + (other < row.longer);' 's->left = row.share + 1;' "$stream"
defect 'stream: a step between shares' gemm_tiles.clh 's->left = row.share + (other < row.longer);' 's->left = row.share;' "$stream"
defect 'stream: own parts overlap by a step' gemm_tiles.clh 's->left = min(part_steps, ' 's->left = min(part_steps + 1, ' "$own"
defect 'stream: all parts of a tile in one slot' gemm_tiles.clh ': group + tile;' ': tiles * own_parts + tile;' "$stream"
defect 'stream: the slot stays' gemm_tiles.clh ': group + tile;' ': group;' "$stream"
defect 'stream: sums stored in the tile before' gemm_tiles.clh 'uint tile = s->tile - 1' 'uint tile = s->tile - 2' "$stream"
defect 'stream: another slot filled' gemm_wgmma.cl '(now) < (STAGES - STEPS_AHEAD)' '(now) <= (STAGES - STEPS_AHEAD)' "$stream"
defect 'stream: the next tile from the middle on' gemm_tiles.clh '    s->step = own_parts * part_steps;
    return' '    return' "$stream"
defect 'stream: one part not added' gemm_sum.cl 's < slots.others; s++)
        ADD' 's + 1 < slots.others; s++)
        ADD' "$stream"
defect 'stream: one own part not added' gemm_sum.cl 's < slots.own; s++)
        ADD' 's + 1 < slots.own; s++)
        ADD' "$own"
defect 'stream: the group before is asked' gemm_tiles.clh 'at / (r->share + 1) : r->longer' 'at / (r->share + 2) : r->longer' "$stream"
defect 'stream: line sums by steps of the share' gemm_tiles.clh '(j0) / BN - k0 / BK % LINE_SUMS_TURNS(n))' '(j0) / BN)' "$lines"
defect 'stream: line sums of one tile of a row' gemm_sum.cl 'tj < (n + BN - 1) / BN' 'tj < 1' "$lines"
unset CLTRAIN_PTX_SM CLTRAIN_PTX_LOCAL

# --- gemm_tile.cl, gemm_stage.clh ---
tiles='gemm.tails_nn[tile]'
defect 'tile loop without its barrier' gemm_tile.cl '        barrier(CLK_LOCAL_MEM_FENCE);
    }' '    }' "$tiles"
defect 'sums laid out too early' gemm_tile.cl 'r0 += SLAB) {
        barrier(CLK_LOCAL_MEM_FENCE);' 'r0 += SLAB) {' "$tiles"
defect 'sums read too early' gemm_tile.cl '        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
        for (uint e' '#pragma unroll 1
        for (uint e' "$tiles"
defect 'a row of C too many' gemm_tile.cl 'if (i < m)' 'if (i <= m)' "$tiles"
defect 'last step of k left out' gemm_tile.cl '(whole & 1) * TILE_B, rest)' '(whole & 1) * TILE_B, rest - 1)' "$tiles"
defect 'pair of tiles exchanged' gemm_tile.cl 'from_b + now * TILE_B' 'from_b + next * TILE_B' "$tiles"
defect 'steps beyond k read' gemm_stage.clh 'o < lines && p < left' 'o < lines && p <= left' "$tiles"
defect 'a part of k not added' gemm_sum.cl 'for (uint s = 0; s < splits; s++)' 'for (uint s = 1; s < splits; s++)' 'gemm.deep_tiles[tile]'

# --- gemm_window_tiles.clh ---
windows='gemm.windows_nt_stride[mma_f16]'
defect 'windows: places outside of the image read' gemm_window_tiles.clh '(uint)w->in[i] ? bit : 0' '(uint)w->in[i] + 1 ? bit : 0' 'gemm.windows_nt[mma_f16]'
defect 'windows: rows that are not' gemm_window_tiles.clh 'row < rows ? mask_of' 'row <= rows ? mask_of' "$windows"
defect 'windows: a carry forgotten' gemm_window_tiles.clh '(carried ? walk->unit[i] : 0)' '0' "$windows"
defect 'windows: pointer not carried' gemm_window_tiles.clh 'move += carried ? walk->carry[i] : 0' 'move += 0' "$windows"
defect 'windows: places after the last one' gemm_mma.cl '(along) || (int)row < left' '(along) || (int)row <= left' 'gemm.windows_tn_stride[mma_f16]'
defect 'windows: places of B outside of the image read' gemm_window_tiles.clh '(moved)) < (s)->in[j])' '(moved)) <= (s)->in[j])' \
    'gemm.windows_tn[mma_f16]'
defect 'windows: nothing copied from nowhere' gemm_mma.cl '(inside ? from : any)' '(from)' 'gemm.windows_nt[mma_f16]'
defect 'windows: row of another place' gemm_window_tiles.clh 'over1 ? m->to[2] : over0' 'over0' 'gemm.windows_nt_odd[mma_f16]'

# --- attention ---
attention='attention.f16_odd[mma]'
defect 'attention: the key after the last seen' attention_mma.clh 'column + 1 < seen_up ?' 'column < seen_up ?' "$attention"
defect 'attention: loop without its barrier' attention_mma.cl 'barrier(CLK_LOCAL_MEM_FENCE); /* the tile is there' '/* the tile is there' 'attention.bf16_tiles[mma]'
defect 'attention: lse of rows that are not' attention_mma.cl 'if (pair == 0 && row < tq)' 'if (pair == 0)' "$attention"
defect 'attention: keys beyond the last' attention_mma.cl 'LOAD_TILE(DT, slots, k, ldk, ' 'LOAD_TILE(DT, slots, k + 1, ldk, ' "$attention"
defect 'attention: columns of B exchanged' attention_mma.clh 'uint pick = -e;' 'uint pick = e - 1;' "$attention"
# One kernel of backward: a chain of groups.
chain='attention.f16_head_64[mma_one]'
defect 'chain: not waited for' attention_mma_one.cl 'clt_chain_wait(counter, before);' ';' "$chain"
defect 'chain: looks that acquire nothing' group_chain.clh 'ld.acquire.gpu' 'ld.volatile' "$chain"
defect 'chain: leaving releases nothing' group_chain.clh 'st.release.gpu' 'st.volatile' "$chain"
defect 'chain: in the order of the keys' attention_mma_one.cl 'blocks - 1 - nth' 'nth' "$chain"
defect 'chain: a sum forgotten' attention_mma_one.cl 'before > 0 ? sum[' 'before > 1 ? sum[' "$chain"
defect 'chain: counts from another number' attention_mma_one.cl '/ ROWS - j0 / ROWS;' '/ ROWS - j0 / ROWS + 1;' "$chain"
defect 'chain: counters not set to 0' fill.cl 'i < count; i += get_global_size(0))
        buffer[offset + i] = pattern' 'i + count < count; i += get_global_size(0))
        buffer[offset + i] = pattern' "$chain"
defect 'chain: dS read too early' attention_mma_one.cl 'barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); /* dS' '/* dS' "$chain"
defect 'chain: passed on too early' attention_mma_one.cl 'MMA_COPIES_WAIT(0);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);' 'MMA_COPIES_WAIT(0);' "$chain"
defect 'chain: a row of dq too many' attention_mma_one.cl '&& up < rows' '&& up <= rows' "$chain"
defect 'chain: dS^T exchanged' attention_mma_one.cl 'at[4] = ds[i].z' 'at[4] = ds[i].y' "$chain"
defect 'chain: queries without keys' attention_mma_one.cl 'if (j0 == 0 && !accumulate_q)' 'if (j0 == 1)' 'attention.f16_blind_queries[mma_one]'
defect 'attention: scores used too early' attention_group.cl '        barrier(CLK_LOCAL_MEM_FENCE);
        multiply_nt(' '        multiply_nt(' 'attention.odd[group]'
defect 'attention: block reused too early' attention_group.cl 'multiply_nn(sum, ds, key, down, across);
        barrier(CLK_LOCAL_MEM_FENCE);' 'multiply_nn(sum, ds, key, down, across);' 'attention.blocks[group]'
defect 'attention: rows that are not' attention_group.cl 'ROW(r_) < (have) &&' '' 'attention.odd[group]'

# --- update, norm ---
defect 'update: a part of the norm' groups.clh 'i < WG; i += GROUP_PARTS' 'i < WG / 2; i += GROUP_PARTS' 'update.*[group]'
defect 'group sums without a barrier' groups.clh '    GROUP_PART(scratch, lane, GROUP_ADD)
    barrier(CLK_LOCAL_MEM_FENCE);' '    GROUP_PART(scratch, lane, GROUP_ADD)' 'layernorm.odd[group]'
defect 'group sums reuse their memory' groups.clh '    GROUP_RESULT(sum, scratch, GROUP_ADD)
    barrier(CLK_LOCAL_MEM_FENCE);' '    GROUP_RESULT(sum, scratch, GROUP_ADD)' 'layernorm.odd[group]'
defect 'norm: sums of a block without a barrier' layernorm.cl '        eighths[t] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);' '        eighths[t] = sum;
    }' 'layernorm.vectors[blocks]'
defect 'norm: sums of a block read too early' layernorm.cl '(e[6] + e[7]));
    }
    barrier(CLK_LOCAL_MEM_FENCE);' '(e[6] + e[7]));
    }' 'layernorm.vectors[blocks]'
defect 'update: second moment too large' adam.clh 'd * d, beta2 * v1' 'd * d, v1' 'update.*[group]'
defect 'norm: one column left out' layernorm.cl '    FOR_SINGLES_OF(DT, x, c, whole, cols)' '    FOR_SINGLES_OF(DT, x, c, whole, cols - 1)' 'layernorm.odd[group]'

# --- barriers whose absence changes no value if the work-items of a group run one after the other ---
defect 'embedding: sums read too early' embedding.cl 'sums[lane] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);' 'sums[lane] = sum;' 'embedding.odd[group]'
defect 'reduce: sums read too early' reduce.cl 'scratch[lane] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);' 'scratch[lane] = sum;' 'reduce.sum_all[group]'

echo "$reported defects reported"
if [ "$reported" -ge 100 ]; then pass; else fail "only $reported defects were reported"; fi
finish
