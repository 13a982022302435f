/* SPDX-License-Identifier: Apache-2.0
 *
 * Packs samples into rows. */
#include "engine/data/chat/chat_rows.h"

#include <stdlib.h>
#include <string.h>

#define NONE (-1)

/* Rows by their room, the number of tokens that still fit: a list of rows for each room, and a bit that is
 * set if the list is not empty. */
typedef struct by_room {
    int64_t room; /* room of an empty row */
    /* (room + 1) the row that was added last to the list of this room; NONE: the list is empty */
    int64_t *head;
    int64_t *before;  /* (rows) the row that was added to the list before this one */
    uint64_t *filled; /* (room / 64 + 1) words; bit r is set if the list of room r is not empty */
} by_room;

static void put_row(by_room *b, int64_t row, int64_t left)
{
    b->before[row] = b->head[left];
    b->head[left] = row;
    b->filled[left / 64] |= UINT64_C(1) << (left % 64);
}

/* Removes the fullest row that still has room for `need` tokens; NONE: there is no such row. *left: the room
 * of the row. */
static int64_t take_row(by_room *b, int64_t need, int64_t *left)
{
    uint64_t bits = b->filled[need / 64] & (UINT64_MAX << (need % 64));
    int64_t word = need / 64;
    while (!bits && ++word <= b->room / 64)
        bits = b->filled[word];
    if (!bits)
        return NONE;
    *left = word * 64 + __builtin_ctzll(bits);
    int64_t row = b->head[*left];
    b->head[*left] = b->before[row];
    if (b->head[*left] == NONE)
        b->filled[*left / 64] &= ~(UINT64_C(1) << (*left % 64));
    return row;
}

/* Writes the samples by decreasing length to `order`; samples of equal length keep their order (a counting
 * sort). */
static clt_status sort_falling(const int64_t *length, int64_t n, int64_t room, int64_t *order)
{
    CLT_FREED int64_t *begin = NULL;
    CLT_TRY(clt_alloc(&begin, (size_t)room + 2, sizeof *begin, "sorting samples"));
    for (int64_t i = 0; i < n; i++)
        begin[room - length[i] + 1]++;
    for (int64_t k = 1; k <= room + 1; k++)
        begin[k] += begin[k - 1];
    for (int64_t i = 0; i < n; i++)
        order[begin[room - length[i]]++] = i;
    return CLT_OK;
}

/* Sets row[i] to the row of sample i. */
static clt_status pack_best(const int64_t *length, const int64_t *order, int64_t n, int64_t room,
                            int64_t *row, int64_t *count)
{
    CLT_SCOPED(clt_scratch) scratch = {0};
    by_room b = {.room = room};
    CLT_TRY(clt_scratch_alloc(&scratch, &b.head, (size_t)room + 1, sizeof *b.head, "packing samples"));
    CLT_TRY(clt_scratch_alloc(&scratch, &b.before, (size_t)n, sizeof *b.before, "packing samples"));
    CLT_TRY(
        clt_scratch_alloc(&scratch, &b.filled, (size_t)room / 64 + 1, sizeof *b.filled, "packing samples"));
    for (int64_t i = 0; i <= room; i++)
        b.head[i] = NONE;
    for (int64_t i = 0; i < n; i++) {
        int64_t sample = order[i], left, chosen = take_row(&b, length[sample], &left);
        if (chosen == NONE) {
            chosen = (*count)++;
            left = room;
        }
        row[sample] = chosen;
        put_row(&b, chosen, left - length[sample]);
    }
    return CLT_OK;
}

static void pack_next(const int64_t *length, int64_t n, int64_t room, bool alone, int64_t *row,
                      int64_t *count)
{
    int64_t left = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i == 0 || alone || length[i] > left) {
            ++*count;
            left = room;
        }
        row[i] = *count - 1;
        left -= length[i];
    }
}

clt_status clt_chat_pack(const int64_t *length, int64_t n, int64_t room, clt_chat_packing how,
                         clt_chat_rows *out)
{
    CLT_SCOPED(clt_chat_rows) rows = {0};
    CLT_SCOPED(clt_scratch) scratch = {0};
    int64_t *order, *row;
    CLT_TRY(clt_scratch_alloc(&scratch, &order, (size_t)n, sizeof *order, "packing samples"));
    CLT_TRY(clt_scratch_alloc(&scratch, &row, (size_t)n, sizeof *row, "packing samples"));
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    if (how == CLT_CHAT_BEST) {
        CLT_TRY(sort_falling(length, n, room, order));
        CLT_TRY(pack_best(length, order, n, room, row, &rows.count));
    } else {
        pack_next(length, n, room, how == CLT_CHAT_NONE, row, &rows.count);
    }
    CLT_TRY(clt_alloc(&rows.first, (size_t)rows.count + 2, sizeof *rows.first, "the rows of samples"));
    CLT_TRY(clt_alloc(&rows.sample, (size_t)n, sizeof *rows.sample, "the rows of samples"));
    for (int64_t i = 0; i < n; i++)
        rows.first[row[i] + 2]++;
    for (int64_t r = 2; r <= rows.count + 1; r++)
        rows.first[r] += rows.first[r - 1];
    for (int64_t i = 0; i < n; i++)
        rows.sample[rows.first[row[order[i]] + 1]++] = order[i];
    *out = rows;
    rows = (clt_chat_rows){0};
    return CLT_OK;
}

void clt_chat_rows_free(clt_chat_rows *rows)
{
    free(rows->first);
    free(rows->sample);
    *rows = (clt_chat_rows){0};
}
