/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampling from window models: the evaluation plan with its first row filled by hand. */
#include "engine/train/generate/generate.h"

#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/train/run/run.h"
#include "engine/checkpoint/saved_run.h"

typedef struct sampler {
    clt_run *run;
    int32_t field; /* tensor of x */
    int64_t window, rows;
    uint8_t *x;    /* (rows, window) */
    float *logits; /* (rows, 256) */
    uint8_t *text; /* window bytes, then what was generated */
    float scratch[256];
} sampler;

static clt_status find_shapes(sampler *s)
{
    const clt_graph *graph = s->run->job->eval->graph;
    int32_t x = clt_graph_find_field(graph, "x");
    const clt_tensor *logits = clt_graph_tensor(graph, s->run->job->prediction);
    if (x < 0 || graph->fields[x].dtype != CLT_U8 || graph->fields[x].shape.ndim != 1 || !logits ||
        clt_shape_last(&logits->shape) != 256 || clt_shape_rows(&logits->shape) != graph->micro_batch)
        CLT_FAIL(CLT_ECONFIG,
                 "sampling: the model is no byte model (it must map a window of bytes x to 256 logits)");
    s->field = graph->fields[x].tensor;
    s->window = graph->fields[x].shape.dim[0];
    s->rows = graph->micro_batch;
    return CLT_OK;
}

/* The prompt's last bytes, spaces before a short one. */
static clt_status prepare(sampler *s, const char *prompt, int n)
{
    size_t length = strlen(prompt), window = (size_t)s->window;
    CLT_TRY(clt_alloc(&s->x, (size_t)(s->rows * s->window), 1, "sampling"));
    CLT_TRY(clt_alloc(&s->logits, (size_t)s->rows * 256, sizeof *s->logits, "sampling"));
    CLT_TRY(clt_alloc(&s->text, window + (size_t)n, 1, "sampling"));
    memset(s->text, ' ', window);
    size_t used = length < window ? length : window;
    memcpy(s->text + window - used, prompt + length - used, used);
    return CLT_OK;
}

static clt_status next_byte(sampler *s, int index, const clt_sampling *sampling)
{
    memcpy(s->x, s->text + index, (size_t)s->window);
    CLT_TRY(clt_realized_write(s->run->eval, s->field, s->x));
    CLT_TRY(clt_realized_run(s->run->eval, CLT_PHASE_FORWARD));
    CLT_TRY(clt_realized_read_f32(s->run->eval, s->run->job->prediction, s->logits));
    s->text[s->window + index] = (uint8_t)clt_sample(s->logits, 256, sampling, (uint64_t)index, s->scratch);
    return CLT_OK;
}

clt_status clt_sample_window(const clt_run_options *options, const char *prompt, int n,
                             const clt_sampling *sampling, clt_str *out)
{
    sampler s = {0};
    CLT_TRY(clt_run_create(options, CLT_JOB_EVAL, &s.run));
    clt_status status = clt_run_load_saved(s.run, options->saved->checkpoint, options->saved->path);
    if (status == CLT_OK)
        status = find_shapes(&s);
    if (status == CLT_OK)
        status = prepare(&s, prompt, n);
    for (int i = 0; i < n && status == CLT_OK; i++)
        status = next_byte(&s, i, sampling);
    if (status == CLT_OK)
        clt_str_append_n(out, (const char *)s.text + s.window, (size_t)n);
    clt_run_destroy(s.run);
    free(s.x);
    free(s.logits);
    free(s.text);
    return status == CLT_OK ? clt_str_check(out) : status;
}
