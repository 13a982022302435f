/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes where the windows over a stream of tokens begin, and which targets an earlier window counts. */
#include "engine/data/tokens/sequence.h"

clt_sequence clt_sequence_make(int64_t tokens, int64_t context, clt_split split, bool shuffle)
{
    clt_sequence s = {.tokens = tokens, .context = context, .stride = context};
    if (tokens <= context)
        return s;
    if (split == CLT_SPLIT_TRAIN && shuffle) {
        s.stride = 1;
        s.samples = tokens - context;
    } else if (split == CLT_SPLIT_TRAIN) {
        s.samples = (tokens - 1) / context;
    } else {
        s.samples = (tokens - 2) / context + 1; /* (tokens - 1) targets / context, rounded up */
    }
    return s;
}

int64_t clt_sequence_begin(const clt_sequence *s, int64_t index)
{
    int64_t begin = index * s->stride, last = s->tokens - 1 - s->context;
    return begin < last ? begin : last;
}

int64_t clt_sequence_counted(const clt_sequence *s, int64_t index)
{
    return index * s->stride - clt_sequence_begin(s, index);
}

void clt_sequence_fields(clt_source *source, const clt_sequence *s, clt_dtype x_dtype, int64_t max_value)
{
    source->samples = s->samples;
    source->n_fields = 2;
    source->fields[0] = (clt_source_field){"x", x_dtype, clt_shape1(s->context), true, max_value};
    source->fields[1] = (clt_source_field){"y", CLT_I32, clt_shape1(s->context), true, max_value};
}

clt_status clt_sequence_check_ignore(const clt_sequence *s, int field, bool has_ignore, int64_t ignore)
{
    int64_t counted = s->samples > 0 ? clt_sequence_counted(s, s->samples - 1) : 0;
    if (field == 0 || counted == 0 || (has_ignore && ignore == CLT_COUNTED_TARGET))
        return CLT_OK;
    CLT_FAIL(
        CLT_ECONFIG,
        "checking field \"y\" of the data: the last of the %lld windows of evaluation has %lld targets that "
        "the window before it has counted, marked %d; let the model's loss ignore them "
        "(model.ignore_index %d)",
        (long long)s->samples, (long long)counted, CLT_COUNTED_TARGET, CLT_COUNTED_TARGET);
}
