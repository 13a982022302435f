/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows over a stream of tokens, for sequence models: x is `context` tokens, and y the same window shifted
 * by one token. It knows where windows begin, but not where tokens come from.
 *
 * Training with shuffling has a window at every token, so that windows are random and each comes once per
 * epoch. Without shuffling the windows follow one another without overlap, and a rest that is shorter than a
 * window is dropped. Evaluation counts each target of the stream exactly once, in order: the last window ends
 * at the end of the stream, and targets that the previous window has counted are -1, so that a loss with
 * ignore_index -1 ignores them. */
#ifndef ENGINE_DATA_TOKENS_SEQUENCE_H
#define ENGINE_DATA_TOKENS_SEQUENCE_H

#include "engine/data/data.h"

#define CLT_COUNTED_TARGET (-1)

typedef struct clt_sequence {
    int64_t tokens;  /* number of tokens in the stream */
    int64_t context; /* number of tokens in a window */
    int64_t stride;  /* distance between the beginnings of two windows */
    int64_t samples;
} clt_sequence;

/* The number of samples is 0 if the stream has fewer than `context` + 1 tokens. */
clt_sequence clt_sequence_make(int64_t tokens, int64_t context, clt_split split, bool shuffle);
/* Index in the stream of the first token of window `index`. */
int64_t clt_sequence_begin(const clt_sequence *s, int64_t index);
/* Number of targets at the beginning of the window that the previous window counts. */
int64_t clt_sequence_counted(const clt_sequence *s, int64_t index);

/* Sets the fields x (`context` tokens of type `x_dtype`) and y (`context` targets, i32). `max_value`: the
 * largest token; -1: unknown. */
void clt_sequence_fields(clt_source *source, const clt_sequence *s, clt_dtype x_dtype, int64_t max_value);
/* Fails with CLT_ECONFIG if windows of evaluation overlap and the model's loss would not ignore targets that
 * another window counts. */
clt_status clt_sequence_check_ignore(const clt_sequence *s, int field, bool has_ignore, int64_t ignore);

#endif
