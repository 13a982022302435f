/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference and test cases of kv_cache. At position 0 a run defines every row; at a later position the other
 * rows keep their content, which in the checker is NaN. */
#include <string.h>

#include "engine/ops/case.h"

static void forward(clt_ref_call *call)
{
    const clt_shape *y = &call->out[0].shape;
    int64_t rows = y->dim[1], width = y->dim[2];
    for (int64_t n = 0; n < y->dim[0]; n++) {
        int64_t at = (int64_t)call->in[1].data[n];
        double *cache = call->out[0].data + n * rows * width;
        if (at == 0)
            memset(cache, 0, (size_t)(rows * width) * sizeof *cache);
        if (at < rows)
            memcpy(cache + at * width, call->in[0].data + n * width, (size_t)width * sizeof *cache);
    }
}

static const clt_op_case cases[] = {
    CLT_CASE("first", "{\"rows\":5}", CLT_SMALL | CLT_EXACT,
             {.dtype = CLT_F32, .fill = CLT_FILL_NORMAL, .ndim = 3, .dim = {3, 1, 7}},
             {.dtype = CLT_I32, .fill = CLT_FILL_INDEX, .fill_max = 1, .ndim = 1, .dim = {3}}),
    {.name = "later", /* positions after the first, and one beyond the last row */
     .attrs = "{\"rows\":5}",
     .n_inputs = 2,
     .inputs = {{.dtype = CLT_F32, .fill = CLT_FILL_NORMAL, .ndim = 3, .dim = {23, 1, 7}},
                {.dtype = CLT_I32, .fill = CLT_FILL_INDEX, .fill_max = 7, .ndim = 1, .dim = {23}}},
     .exact = true,
     .small = true,
     .remembers = true},
    CLT_CASE("one", "{\"rows\":1}", CLT_SMALL | CLT_EXACT,
             {.dtype = CLT_F32, .fill = CLT_FILL_NORMAL, .ndim = 3, .dim = {1, 1, 33}},
             {.dtype = CLT_I32, .fill = CLT_FILL_INDEX, .fill_max = 1, .ndim = 1, .dim = {1}}),
};

CLT_OP_REF(kv_cache, forward, NULL, cases, .tolerance = 1);
