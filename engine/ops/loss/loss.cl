/* SPDX-License-Identifier: Apache-2.0
 *
 * Loss records (engine/ops/loss/loss.h): a deterministic sum of per-row {loss, counted, correct}, first in
 * parts if there are many rows, and the update of the record of four floats. Does not know the meaning of a
 * row. */
#include "common.clh"
#include "step_block.clh"

/* part (parts,3) = sums of rows (n,3) over blocks of `block` rows. */
__kernel void loss_fwd_part(__global float *part, ulong part0, __global const float *rows, ulong rows0,
                            ulong n, ulong block, uint parts)
{
    uint p = (uint)get_global_id(0);
    if (p >= parts)
        return;
    ulong first = p * block, end = min(first + block, n);
    rows += rows0;
    float loss = 0.0f, counted = 0.0f, correct = 0.0f;
    for (ulong r = first; r < end; r++) {
        loss += rows[3 * r];
        counted += rows[3 * r + 1];
        correct += rows[3 * r + 2];
    }
    part += part0 + 3 * (ulong)p;
    part[0] = loss;
    part[1] = counted;
    part[2] = correct;
}

/* record (4) = or += {loss * weight / normaliser, loss, counted, correct} summed over part (parts,3); one
 * item. Micro-batch 0 writes the record; with SB_FLAG_APART every micro-batch does. */
__kernel void loss_fwd_record(__global float *record, ulong record0, __global const float *part, ulong part0,
                              __global const uint *sb, ulong sb0, uint parts, float weight, uint loss_index)
{
    if (get_global_id(0) != 0)
        return;
    sb += sb0;
    part += part0;
    record += record0;
    float loss = 0.0f, counted = 0.0f, correct = 0.0f;
    for (uint p = 0; p < parts; p++) {
        loss += part[3 * p];
        counted += part[3 * p + 1];
        correct += part[3 * p + 2];
    }
    float scaled = loss * (weight * as_float(sb[SB_NORM + loss_index]));
    if (sb[SB_MICRO] == 0 || (sb[SB_FLAGS] & SB_FLAG_APART)) {
        record[0] = scaled;
        record[1] = loss;
        record[2] = counted;
        record[3] = correct;
    } else {
        record[0] += scaled;
        record[1] += loss;
        record[2] += counted;
        record[3] += correct;
    }
}
