/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows over a stream of tokens, for models of sequences: x is `context` tokens and y the same tokens one
 * place on. It knows where windows begin and nothing of where tokens come from.
 *
 * Training takes every place of the stream as a beginning, so that shuffling gives random windows and each
 * beginning comes once per epoch; without shuffling the windows follow one another without overlap, and a
 * tail that fills no window is left out. Evaluation takes the whole stream, in order, each target exactly
 * once: the last window ends at the end of the stream, and those of its targets that the window before it
 * has counted already are -1, so that a loss with ignore_index -1 leaves them out. */
#ifndef ENGINE_DATA_TOKENS_SEQUENCE_H
#define ENGINE_DATA_TOKENS_SEQUENCE_H

#include "engine/data/data.h"

#define CLT_COUNTED_TARGET (-1)

typedef struct clt_sequence {
    int64_t tokens;  /* in the stream */
    int64_t context; /* tokens of a window */
    int64_t stride;  /* distance between the beginnings of two windows */
    int64_t samples;
} clt_sequence;

/* samples is 0 when the stream has fewer than context + 1 tokens. */
clt_sequence clt_sequence_make(int64_t tokens, int64_t context, clt_split split, bool shuffle);
/* Index in the stream of the first token of window `index`. */
int64_t clt_sequence_begin(const clt_sequence *s, int64_t index);
/* How many of the window's first targets belong to the window before too, and are counted there. */
int64_t clt_sequence_counted(const clt_sequence *s, int64_t index);

/* Sets the fields x (context tokens of x_dtype) and y (context targets, i32); tokens are 0 .. max_value, -1:
 * unknown.
 */
void clt_sequence_fields(clt_source *source, const clt_sequence *s, clt_dtype x_dtype, int64_t max_value);
/* Fails when windows overlap in evaluation and the model's loss would not ignore the targets that are counted
 * twice. */
clt_status clt_sequence_check_ignore(const clt_sequence *s, int field, bool has_ignore, int64_t ignore);

#endif
