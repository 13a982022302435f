/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds recorded spans to the entries of a profile, groups the entries into rows, and computes
 * the roofline. */
#include "engine/report/times/profile.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRANSFERS 3 /* entries for COPY, D2H and H2D, in this order after the entries of commands */

/* --- names --- */

static void append(char *text, const char *more)
{
    size_t used = strlen(text);
    snprintf(text + used, CLT_PROFILE_SHAPE - used, "%s", more);
}

static void append_shape(char *text, const clt_tensor *t)
{
    char number[24];
    for (int d = 0; d < t->shape.ndim; d++) {
        snprintf(number, sizeof number, "%s%" PRId64, d ? "x" : "", t->shape.dim[d]);
        append(text, number);
    }
    if (t->shape.ndim == 0)
        append(text, "1");
}

/* Writes the shapes of the first tensor that a command writes and of the first two that it reads. For a
 * matrix product they show M, N and K. */
static void describe_shape(const clt_plan *plan, const ocl_command *c, char *text)
{
    int reads = 0;
    text[0] = '\0';
    for (int a = 0; a < c->n_args && !text[0]; a++)
        if (c->args[a].kind == OCL_ARG_TENSOR && c->args[a].ref.tensor >= 0 && c->args[a].access != OCL_READ)
            append_shape(text, clt_graph_tensor(plan->graph, c->args[a].ref.tensor));
    for (int a = 0; a < c->n_args && reads < 2; a++) {
        if (c->args[a].kind != OCL_ARG_TENSOR || c->args[a].ref.tensor < 0 || c->args[a].access != OCL_READ)
            continue;
        append(text, reads++ ? "," : "<");
        append_shape(text, clt_graph_tensor(plan->graph, c->args[a].ref.tensor));
    }
}

static const char *what(const ocl_command *c)
{
    if (c->kernel && *c->kernel)
        return c->kernel;
    return c->kind == OCL_CMD_GEMM ? "library" : ocl_command_kind_name(c->kind);
}

static void describe_commands(clt_profile *p)
{
    size_t n = 0;
    for (int phase = 0; phase < CLT_PHASE_COUNT; phase++) {
        p->first[phase] = n;
        for (size_t i = 0; i < p->plan->phase[phase].count; i++) {
            const ocl_command *c = &p->plan->phase[phase].commands[i];
            clt_profile_entry *e = &p->entries[n++];
            *e = (clt_profile_entry){.phase = clt_phase_name((clt_phase)phase),
                                     .label = c->label ? c->label : "",
                                     .layer = c->layer ? c->layer : "",
                                     .kernel = what(c),
                                     .variant = c->variant ? c->variant : "",
                                     .on_device = true};
            describe_shape(p->plan, c, e->shape);
        }
    }
}

static void describe_transfers(clt_profile *p)
{
    static const char *const labels[TRANSFERS] = {"input copy", "reads by the host", "writes by the host"};
    static const char *const kernels[TRANSFERS] = {"copy", "read", "write"};
    for (int i = 0; i < TRANSFERS; i++)
        p->entries[p->n_commands + (size_t)i] = (clt_profile_entry){.phase = "transfers",
                                                                    .label = labels[i],
                                                                    .kernel = kernels[i],
                                                                    .variant = "",
                                                                    .on_device = i == 0};
}

/* --- adding up --- */

clt_status clt_profile_create(const clt_plan *plan, clt_profile **out)
{
    CLT_SCOPED(clt_profile) *p = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&p, 1, sizeof *p, "profile"));
    p->plan = plan;
    for (int phase = 0; phase < CLT_PHASE_COUNT; phase++)
        p->n_commands += plan->phase[phase].count;
    p->n_entries = p->n_commands + TRANSFERS;
    CLT_TRY(clt_alloc(&p->entries, p->n_entries, sizeof *p->entries, "profile"));
    describe_commands(p);
    describe_transfers(p);
    *out = CLT_TAKE(p);
    return CLT_OK;
}

void clt_profile_destroy(clt_profile *p)
{
    if (!p)
        return;
    free(p->entries);
    free(p);
}

clt_profile_entry *clt_profile_command(clt_profile *p, size_t index)
{
    return &p->entries[index];
}

clt_profile_entry *clt_profile_transfer(clt_profile *p, ocl_span_kind kind)
{
    return &p->entries[p->n_commands + (kind == OCL_SPAN_COPY ? 0 : kind == OCL_SPAN_D2H ? 1 : 2)];
}

void clt_profile_add_span(clt_profile_entry *e, const ocl_span *s, double idle_ns)
{
    e->calls++;
    e->ns += (double)(s->end_ns - s->start_ns);
    e->idle_ns += idle_ns;
    if (s->kind == OCL_SPAN_COMMAND) {
        e->flops += s->command->flops;
        e->bytes += (double)ocl_command_bytes(s->command);
    } else { /* a copy on the device reads and writes its bytes */
        e->bytes += (s->kind == OCL_SPAN_COPY ? 2.0 : 1.0) * (double)s->bytes;
    }
}

void clt_profile_add_step(clt_profile *p, const clt_step_times *t)
{
    p->steps++;
    p->step_ns += clt_step_times_ns(t);
    p->busy_ns += t->busy_ns;
    for (int k = 0; k < CLT_IDLE_COUNT; k++)
        p->idle_ns[k] += t->idle_ns[k];
    p->h2d_ns += t->h2d_ns;
    p->h2d_bytes += t->h2d_bytes;
    p->d2h_ns += t->d2h_ns;
    p->d2h_bytes += t->d2h_bytes;
}

/* --- tables --- */

double clt_roofline_percent(const ocl_limits *limits, double flops, double bytes, double ns, bool *memory)
{
    *memory = false;
    if (!limits || !(ns > 0) || !(limits->fma_peak_gflops > 0) || !(limits->stream_gbs > 0) ||
        !(flops + bytes > 0))
        return NAN;
    /* GFLOP/s are flops per ns, GB/s bytes per ns */
    double arithmetic = flops / limits->fma_peak_gflops, streaming = bytes / limits->stream_gbs;
    *memory = streaming >= arithmetic;
    return 100.0 * fmax(arithmetic, streaming) / ns;
}

static int by_work(const void *a, const void *b)
{
    const clt_profile_entry *x = *(const clt_profile_entry *const *)a,
                            *y = *(const clt_profile_entry *const *)b;
    int order = strcmp(x->kernel, y->kernel);
    if (order == 0)
        order = strcmp(x->variant, y->variant);
    if (order == 0)
        order = strcmp(x->shape, y->shape);
    if (order != 0)
        return order;
    double fx = x->flops / (double)x->calls, fy = y->flops / (double)y->calls;
    double bx = x->bytes / (double)x->calls, by = y->bytes / (double)y->calls;
    if (fx < fy || fx > fy)
        return fx < fy ? -1 : 1;
    return (bx > by) - (bx < by);
}

/* Puts entries of equal work next to each other, in the order of the plan. */
static int by_work_then_place(const void *a, const void *b)
{
    int order = by_work(a, b);
    const clt_profile_entry *x = *(const clt_profile_entry *const *)a,
                            *y = *(const clt_profile_entry *const *)b;
    return order ? order : (x > y) - (x < y);
}

static int longest_first(const void *a, const void *b)
{
    const clt_profile_row *x = a, *y = b;
    if (x->ns < y->ns || x->ns > y->ns)
        return x->ns < y->ns ? 1 : -1;
    return (x->first > y->first) - (x->first < y->first);
}

/* Entries of a row are in the order of the plan, so the commands of a layer are neighbours. */
static bool is_new_layer(const char *before, const char *layer)
{
    return layer && *layer && (!before || strcmp(before, layer) != 0);
}

const char *clt_profile_layers(const clt_profile_row *row, char *buffer, size_t size)
{
    const char *layer = row->first->layer;
    if (!layer || !*layer)
        snprintf(buffer, size, "%s", "");
    else if (row->layers > 1)
        snprintf(buffer, size, "%.80s and %zu more", layer, row->layers - 1);
    else
        snprintf(buffer, size, "%.100s", layer);
    return buffer;
}

clt_status clt_profile_group(const clt_profile *p, clt_profile_row **rows, size_t *count)
{
    CLT_FREED const clt_profile_entry **ran = NULL;
    size_t n = 0;
    *count = 0;
    *rows = NULL;
    CLT_TRY(clt_alloc(&ran, p->n_entries, sizeof *ran, "profile"));
    for (size_t i = 0; i < p->n_entries; i++)
        if (p->entries[i].calls > 0)
            ran[n++] = &p->entries[i];
    CLT_TRY(clt_alloc(rows, n, sizeof **rows, "profile"));
    if (n > 0)
        qsort(ran, n, sizeof *ran, by_work_then_place);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || by_work(&ran[i - 1], &ran[i]) != 0)
            (*rows)[(*count)++] = (clt_profile_row){.first = ran[i]};
        clt_profile_row *row = &(*rows)[*count - 1];
        row->layers += is_new_layer(row->commands > 0 ? ran[i - 1]->layer : NULL, ran[i]->layer);
        row->commands++;
        row->calls += ran[i]->calls;
        row->ns += ran[i]->ns;
        row->flops += ran[i]->flops;
        row->bytes += ran[i]->bytes;
        row->idle_ns += ran[i]->idle_ns;
    }
    qsort(*rows, *count, sizeof **rows, longest_first);
    return CLT_OK;
}
