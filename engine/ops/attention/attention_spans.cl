/* SPDX-License-Identifier: Apache-2.0
 *
 * The documents of a row, for attention: from a number for each token, which is the same for neighbours of
 * one document, the first token of each token's document and the token after its last one. Any numbers give
 * spans that lie within the row, contain their token and follow one another, so that no kernel that uses
 * them reads out of bounds or waits for work that no group does. */
#include "common.clh"

#define CHUNK 32 /* tokens of an item */
#define STEP 16  /* numbers that are compared at a time in the search for the ends of a document */

static inline bool all_equal(__global const int *documents, int number)
{
    bool equal = true;
    UNROLL_FOR (uint i = 0; i < STEP; i++)
        equal = equal & (documents[i] == number);
    return equal;
}

/* documents (samples, tokens) -> spans (samples, tokens, 2); one item for CHUNK tokens of a sample. */
__kernel void attention_spans(__global int *spans, ulong spans0, __global const int *documents,
                              ulong documents0, uint tokens, ulong items)
{
    ulong item = get_global_id(0), chunks = (tokens + CHUNK - 1) / CHUNK, n = item / chunks;
    if (item >= items)
        return;
    uint from = (uint)(item - n * chunks) * CHUNK, end = min(from + CHUNK, tokens), first = from, last = end;
    documents += documents0 + n * tokens;
    spans += spans0 + 2 * n * tokens;
    int number = documents[from];
    while (first >= STEP && all_equal(documents + (first - STEP), number))
        first -= STEP;
    while (first > 0 && documents[first - 1] == number)
        first--;
    for (uint i = from; i < end; i++) {
        if (i > from && documents[i] != documents[i - 1])
            first = i;
        spans[2 * (ulong)i] = (int)first;
    }
    number = documents[end - 1];
    while (last + STEP <= tokens && all_equal(documents + last, number))
        last += STEP;
    while (last < tokens && documents[last] == number)
        last++;
    for (uint i = end; i > from; i--) {
        if (i < end && documents[i] != documents[i - 1])
            last = i;
        spans[2 * (ulong)i - 1] = (int)last;
    }
}
