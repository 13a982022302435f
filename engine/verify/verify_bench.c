/* SPDX-License-Identifier: Apache-2.0
 *
 * The bench of one op case: a graph of one node (or two nodes that share their inputs), its plan with guard
 * zones around every tensor, and images of the slabs on the host. A run uploads whole slabs and reads them
 * back, so that every byte is checked: bytes that a phase may not write, including inputs and parameters,
 * must not change. Knows plans, but not which results are right. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/ops/exchange.h"
#include "engine/ops/node.h"
#include "engine/verify/verify_internal.h"

#define GUARD_BYTES 256

/* --- graph --- */

bool clt_verify_takes_gradient(const clt_verify_subject *subject, const clt_graph *graph,
                               const clt_node *node, int index)
{
    return subject->op->backward.variants != NULL && !(subject->op->no_grad_inputs & (1u << index)) &&
           clt_dtype_is_float(clt_graph_tensor(graph, node->in[index])->dtype);
}

bool clt_verify_has_type(const clt_op_case *c, clt_dtype type)
{
    if (c->retyped == 1 + (int)type)
        return true;
    for (int i = 0; i < c->n_inputs; i++)
        if (c->inputs[i].dtype == type)
            return true;
    return false;
}

bool clt_verify_is_16_bit(const clt_op_case *c)
{
    return clt_verify_has_type(c, CLT_F16) || clt_verify_has_type(c, CLT_BF16);
}

clt_verify_setup clt_verify_single(const clt_verify_session *session, const clt_op_case *c)
{
    clt_verify_setup setup = CLT_VERIFY_SINGLE;
    setup.narrow = session->options->own_forms && clt_verify_is_16_bit(c);
    return setup;
}

/* Inputs with a batch dimension are batch fields; other inputs, such as vectors that are added to rows, are
 * tensors of class CLT_TC_FIELD, too. */
static clt_status add_inputs(clt_graph *graph, const clt_op_case *c, int32_t *ids)
{
    for (int i = 0; i < c->n_inputs; i++) {
        const clt_case_input *input = &c->inputs[i];
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        if (input->ndim > 0 && input->dim[0] == graph->micro_batch) {
            clt_shape shape = clt_shape_make(input->ndim - 1, input->dim + 1);
            CLT_TRY(clt_graph_field(graph, name, input->dtype, &shape, &ids[i]));
        } else {
            clt_shape shape = clt_shape_make(input->ndim, input->dim);
            CLT_TRY(clt_graph_new_tensor(graph, name, input->dtype, &shape, CLT_TC_FIELD, &ids[i]));
        }
    }
    return CLT_OK;
}

/* Adds fields for the gradients of the outputs. */
static clt_status add_douts(clt_graph *graph, const clt_verify_subject *subject,
                            const clt_verify_setup *setup, const clt_node *node, int32_t *douts)
{
    for (int i = 0; i < node->n_out; i++) {
        clt_tensor *out = clt_graph_tensor(graph, node->out[i]);
        char name[64];
        out->is_output = true;
        if (!subject->op->backward.variants || (subject->op->flags & CLT_OP_LOSS) ||
            !clt_dtype_is_float(out->dtype))
            continue;
        snprintf(name, sizeof name, "dout%d of %s", i, node->name);
        clt_shape shape = out->shape;
        CLT_TRY(clt_graph_new_tensor(graph, name, setup->narrow ? out->dtype : CLT_F32, &shape, CLT_TC_FIELD,
                                     &douts[i]));
    }
    return CLT_OK;
}

/* Adds a tensor for the gradient of an input, to which both nodes add. It has initial values, as in a
 * training, in which the backward passes of later layers have already written values. Every second input has
 * such a tensor, so that a kernel with several gradients adds to some and writes others. */
static clt_status add_earlier(clt_graph *graph, const clt_verify_setup *setup, const clt_tensor *in,
                              int32_t *earlier)
{
    char name[64];
    if (!in->requires_grad)
        return CLT_OK;
    snprintf(name, sizeof name, "d %s", in->name); /* named as gradients in training plans */
    clt_shape shape = in->shape;
    clt_layout layout = in->layout;
    CLT_TRY(clt_graph_new_tensor(graph, name, setup->narrow ? in->dtype : CLT_F32, &shape, CLT_TC_GRADIENT,
                                 earlier));
    clt_graph_tensor(graph, *earlier)->layout = layout;
    return CLT_OK;
}

static clt_status add_nodes(clt_graph *graph, const clt_verify_subject *subject,
                            const clt_verify_setup *setup, clt_verify_bench *bench)
{
    static const char *const names[CLT_VERIFY_COPIES] = {"node", "second"};
    const clt_op_case *c = subject->op_case;
    bool gradients = setup->mode == CLT_PLAN_CHECK && subject->op->backward.variants != NULL;
    for (int k = 0; k < setup->copies; k++) {
        size_t first = graph->n_params;
        CLT_TRY(clt_graph_add_text(graph, subject->op->name, names[k], c->attrs, bench->in, c->n_inputs,
                                   &bench->node[k]));
        if (c->retyped)
            clt_graph_tensor(graph, bench->node[k]->out[0])->dtype = (clt_dtype)(c->retyped - 1);
        for (size_t p = first; p < graph->n_params; p++)
            graph->params[p].frozen =
                graph->params[p].buffer ? setup->frozen_buffers : !(gradients && setup->want_params);
    }
    for (int i = 0; i < c->n_inputs && gradients; i++)
        if (clt_verify_takes_gradient(subject, graph, bench->node[0], i) && (setup->want_in & (1u << i)))
            clt_graph_tensor(graph, bench->in[i])->requires_grad = true;
    for (int k = 0; k < setup->copies; k++)
        CLT_TRY(add_douts(graph, subject, setup, bench->node[k], bench->dout[k]));
    for (int i = 0; i < c->n_inputs && gradients && setup->copies > 1; i += 2)
        CLT_TRY(add_earlier(graph, setup, clt_graph_tensor(graph, bench->in[i]), &bench->earlier[i]));
    return CLT_OK;
}

clt_status clt_verify_graph(const clt_verify_subject *subject, const clt_verify_setup *setup,
                            clt_verify_bench *bench, clt_graph **out)
{
    const clt_op_case *c = subject->op_case;
    CLT_SCOPED(clt_graph) *graph = NULL;
    bench->copies = setup->copies;
    memset(bench->dout, 0xff, sizeof bench->dout);
    memset(bench->earlier, 0xff, sizeof bench->earlier);
    *out = NULL;
    CLT_TRY(clt_graph_create(c->n_inputs > 0 && c->inputs[0].ndim > 0 ? c->inputs[0].dim[0] : 1, &graph));
    clt_status status = add_inputs(graph, c, bench->in);
    if (status == CLT_OK)
        status = add_nodes(graph, subject, setup, bench);
    if (status != CLT_OK)
        return clt_fail_prefix(status, "building case '%s' of op '%s': ", c->name, subject->op->name);
    *out = CLT_TAKE(graph);
    return CLT_OK;
}

/* --- plan --- */

/* The variant that the subject names, or NULL. */
static const ocl_variant *find_variant(const ocl_family *family, const clt_verify_subject *subject)
{
    return subject->variant ? ocl_variant_named(family->variants, subject->variant) : NULL;
}

/* True if the variant is before the last of the family, which must accept everything. */
static bool is_choosy(const ocl_family *family, const ocl_variant *variant)
{
    size_t i = 0;
    while (variant && family->variants[i] != variant)
        i++;
    return variant && family->variants[i + 1] != NULL;
}

/* If the forced variant refused: extracts the reason from "... none accepts (group: the device lacks
 * local)". */
static bool refusal(const clt_verify_subject *subject, char *reason, size_t size)
{
    const char *open = strstr(clt_error_text(), "none accepts (");
    size_t length = subject->variant ? strlen(subject->variant) : 0;
    if (!open || !subject->variant)
        return false;
    open += strlen("none accepts (");
    if (strncmp(open, subject->variant, length) != 0 || open[length] != ':')
        return false;
    snprintf(reason, size, "variant %s", open);
    char *close = strrchr(reason, ')');
    if (close)
        *close = '\0';
    return true;
}

/* --- other ranks --- */

void clt_verify_set_ranks(const clt_op_case *c, clt_ref_call *call)
{
    call->ranks = c->ranks > 1 ? c->ranks : 1;
    call->rank = c->ranks > 1 ? 1 : 0;
}

static void set_peers(const clt_verify_subject *subject, const clt_graph *graph, clt_verify_bench *bench)
{
    clt_ref_call *peers = &bench->peers;
    peers->node = bench->node[0];
    peers->n_in = bench->node[0]->n_in;
    for (int i = 0; i < peers->n_in; i++)
        peers->in[i].shape = clt_graph_tensor(graph, bench->node[0]->in[i])->shape;
    clt_verify_set_ranks(subject->op_case, peers);
}

clt_status clt_verify_host(void *context, const ocl_command *command)
{
    clt_verify_bench *b = context;
    uint64_t words = command->args[0].bytes / sizeof(float);
    CLT_FREED float *all = NULL;
    if (command->host_code != CLT_HOST_GET)
        return CLT_OK;
    const clt_op_ref *ref = b->node[0]->op->ref;
    CLT_TRY(clt_alloc(&all, (size_t)(words * (uint64_t)b->peers.ranks), sizeof *all, "records of ranks"));
    for (int r = 0; r < b->peers.ranks; r++)
        for (uint64_t i = 0; i < words && r != b->peers.rank; i++)
            all[(uint64_t)r * words + i] =
                (float)ref->peer(&b->peers, b->phase != CLT_PHASE_FORWARD, r, (int64_t)i);
    CLT_TRY(ocl_finish(b->device, OCL_QUEUE_COMPUTE));
    CLT_TRY(
        clt_realized_read(b->realized, command->args[0].ref.tensor, all + (uint64_t)b->peers.rank * words));
    return clt_realized_write(b->realized, command->args[2].ref.tensor, all);
}

/* --- plan --- */

static bool may_refuse(const clt_verify_subject *subject)
{
    const clt_op *op = subject->op;
    return is_choosy(&op->forward, find_variant(&op->forward, subject)) ||
           is_choosy(&op->backward, find_variant(&op->backward, subject));
}

/* Gives tensors the layouts that the op uses for them, so that only its own kernels are checked and timed,
 * without transpositions. */
static void set_layouts(clt_graph *graph, const ocl_device_desc *desc, const clt_verify_bench *bench)
{
    for (int k = 0; k < bench->copies; k++) {
        const clt_node *node = bench->node[k];
        if (!node->op->layout)
            continue;
        clt_layout layout = node->op->layout(node, desc);
        for (int i = 0; i < node->n_in; i++)
            if (!((node->op->no_grad_inputs >> i) & 1)) {
                clt_graph_tensor(graph, node->in[i])->layout = layout;
                if (bench->earlier[i] >= 0)
                    clt_graph_tensor(graph, bench->earlier[i])->layout = layout;
            }
        for (int i = 0; i < node->n_out; i++) {
            clt_graph_tensor(graph, node->out[i])->layout = layout;
            if (bench->dout[k][i] >= 0)
                clt_graph_tensor(graph, bench->dout[k][i])->layout = layout;
        }
    }
}

/* The values of the variant's tunables that the case asks for, as if the tuner tried them; *out is NULL if
 * there are none. */
static clt_status tuned_of(const clt_verify_subject *subject, const clt_verify_setup *setup,
                           ocl_choice *choice, const ocl_choice **out)
{
    const clt_op *op = subject->op;
    const ocl_family *family = subject->op_case->tuned_forward ? &op->forward : &op->backward;
    const ocl_variant *variant = find_variant(family, subject);
    *out = setup->candidate;
    if (subject->op_case->tuned == 0 || !variant || !variant->tunables)
        return CLT_OK;
    *choice = (ocl_choice){0};
    snprintf(choice->family, sizeof choice->family, "%s", family->name);
    snprintf(choice->variant, sizeof choice->variant, "%s", variant->name);
    for (const ocl_tunable *t = variant->tunables; t->name; t++)
        CLT_TRY(ocl_choice_set(choice, t->name, t->values[subject->op_case->tuned - 1]));
    *out = choice;
    return CLT_OK;
}

static void seed(clt_plan_options *options, int32_t tensor, int32_t gradient)
{
    if (gradient < 0)
        return;
    options->seed_tensor[options->n_seeds] = tensor;
    options->seed_gradient[options->n_seeds++] = gradient;
}

clt_status clt_verify_plan(const ocl_device_desc *desc, const clt_verify_subject *subject,
                           const clt_verify_setup *setup, clt_verify_bench *bench)
{
    clt_graph *graph;
    const ocl_choice *candidate;
    CLT_TRY(tuned_of(subject, setup, &bench->tuned, &candidate));
    CLT_TRY(clt_verify_graph(subject, setup, bench, &graph));
    set_layouts(graph, desc, bench);
    set_peers(subject, graph, bench);
    clt_plan_options options = {.mode = setup->mode,
                                .accumulation = setup->copies == 1 ? 2 : 1,
                                .ranks = bench->peers.ranks,
                                .sync_norms = bench->peers.ranks > 1,
                                .present = bench->peers.ranks,
                                .update.scaling.on = setup->scaled,
                                .narrow_gradients = setup->narrow,
                                .tf32 = setup->tf32,
                                .candidate = candidate,
                                .asked = setup->asked,
                                .guard_bytes =
                                    clt_align_up(GUARD_BYTES, desc->align_bytes ? desc->align_bytes : 1),
                                .force_variant = subject->variant};
    for (int k = 0; k < setup->copies && setup->mode == CLT_PLAN_CHECK; k++) {
        for (int i = 0; i < bench->node[k]->n_out; i++)
            seed(&options, bench->node[k]->out[i], bench->dout[k][i]);
    }
    for (int i = 0; i < subject->op_case->n_inputs; i++)
        seed(&options, bench->in[i], bench->earlier[i]);
    return clt_plan_compute(graph, desc, &options, &bench->plan);
}

static bool is_offered(const clt_verify_session *session, const clt_verify_subject *subject,
                       clt_verify_outcome *outcome)
{
    char what[64];
    const ocl_variant *forward = find_variant(&subject->op->forward, subject);
    const ocl_variant *backward = find_variant(&subject->op->backward, subject);
    uint32_t caps = (forward ? forward->written_for : 0) | (backward ? backward->written_for : 0);
    snprintf(what, sizeof what, "variant %s", subject->variant ? subject->variant : "");
    return clt_verify_offers(session, what, caps, outcome);
}

/* Plans as for training on this device. If the variant refuses because it would be slow here, plans again
 * with a device description for which it accepts. */
static clt_status make_plan(clt_verify_session *session, const clt_verify_subject *subject,
                            const clt_verify_setup *setup, clt_verify_outcome *outcome,
                            clt_verify_bench *bench)
{
    char reason[sizeof outcome->reason];
    if (!is_offered(session, subject, outcome))
        return CLT_OK;
    for (int attempt = 0; attempt < 2; attempt++) {
        ocl_device_desc desc = attempt == 0 ? session->desc : clt_verify_desc(session);
        clt_status status = clt_verify_plan(&desc, subject, setup, bench);
        if (status == CLT_OK)
            return CLT_OK;
        if (status != CLT_EUNSUPPORTED || !may_refuse(subject))
            return status;
        /* the case sets tunables: any refusal is a refusal of their values */
        if (subject->op_case->tuned > 0)
            snprintf(reason, sizeof reason, "variant %s: %s", subject->variant, clt_error_text());
        else if (!refusal(subject, reason, sizeof reason))
            return status;
    }
    clt_verify_set(outcome, CLT_VERIFY_SKIP, "%s", reason);
    clt_error_clear();
    return CLT_OK;
}

/* --- images --- */

static clt_status make_images(clt_verify_bench *b)
{
    CLT_TRY(clt_arena_create(&b->arena));
    for (int32_t s = 0; s < b->plan->n_slabs; s++) {
        size_t n = b->plan->slab_bytes[s];
        CLT_TRY(clt_verify_image_make(b->arena, b->pool->slab[s], n, n, &b->image[s]));
        b->writable[s] = clt_arena_alloc(b->arena, n);
        if (!b->writable[s])
            return CLT_ENOMEM;
    }
    return CLT_OK;
}

clt_status clt_verify_bench_create(clt_verify_session *session, const clt_verify_subject *subject,
                                   const clt_verify_setup *setup, clt_verify_outcome *outcome,
                                   clt_verify_bench **out)
{
    CLT_SCOPED(clt_verify_bench) *bench = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&bench, 1, sizeof *bench, "checker's bench"));
    bench->device = session->device;
    CLT_TRY(make_plan(session, subject, setup, outcome, bench));
    if (!bench->plan)
        return CLT_OK; /* the check is skipped */
    CLT_TRY(clt_verify_realise(bench, 0));
    CLT_TRY(make_images(bench));
    *out = CLT_TAKE(bench);
    return CLT_OK;
}

void clt_verify_bench_clear(clt_verify_bench *b, uint32_t pattern)
{
    for (int32_t s = 0; s < b->plan->n_slabs; s++)
        for (size_t i = 0; i < b->plan->slab_bytes[s]; i++)
            b->image[s].before[i] = (uint8_t)(pattern >> (i % 4 * 8));
}

const clt_tensor *clt_verify_tensor(const clt_verify_bench *b, int32_t tensor)
{
    return clt_graph_tensor(b->plan->graph, tensor);
}

size_t clt_verify_elements(const clt_verify_bench *b, int32_t tensor)
{
    return (size_t)clt_shape_elements(&clt_verify_tensor(b, tensor)->shape);
}

/* Position in memory, in elements, of the element with row-major index `i`. */
static size_t memory_index(const clt_tensor *t, size_t i)
{
    if (t->layout == CLT_LAYOUT_ROW_MAJOR || t->shape.ndim < 3)
        return i;
    size_t channels = (size_t)t->shape.dim[1], inner = 1;
    for (int d = 2; d < t->shape.ndim; d++)
        inner *= (size_t)t->shape.dim[d];
    size_t sample = i / inner / channels, channel = i / inner % channels;
    return (sample * inner + i % inner) * channels + channel;
}

void clt_verify_bench_put(clt_verify_bench *b, int32_t tensor, const double *values)
{
    const clt_tensor *t = clt_verify_tensor(b, tensor);
    const clt_place *place = &b->plan->place[tensor];
    size_t n = clt_verify_elements(b, tensor);
    for (size_t i = 0; i < n; i++)
        clt_dtype_store(t->dtype, b->image[place->slab].before + place->offset, memory_index(t, i),
                        values[i]);
}

void clt_verify_bench_put_bytes(clt_verify_bench *b, int32_t tensor, const void *bytes)
{
    const clt_place *place = &b->plan->place[tensor];
    size_t n = clt_verify_elements(b, tensor) * clt_dtype_bytes(clt_verify_tensor(b, tensor)->dtype);
    memcpy(b->image[place->slab].before + place->offset, bytes, n);
}

void clt_verify_bench_get(const clt_verify_bench *b, int32_t tensor, double *out)
{
    const clt_tensor *t = clt_verify_tensor(b, tensor);
    const clt_place *place = &b->plan->place[tensor];
    size_t n = clt_verify_elements(b, tensor);
    for (size_t i = 0; i < n; i++)
        out[i] = clt_dtype_load(t->dtype, b->image[place->slab].after + place->offset, memory_index(t, i));
}

static size_t source_index(const void *context, size_t i)
{
    return memory_index(context, i);
}

clt_verify_source clt_verify_bench_source(const clt_verify_bench *b, int32_t tensor)
{
    const clt_tensor *t = clt_verify_tensor(b, tensor);
    const clt_place *place = &b->plan->place[tensor];
    return (clt_verify_source){.buffer = b->image[place->slab].buffer,
                               .dtype = t->dtype,
                               .offset = place->offset,
                               .index = source_index,
                               .context = t};
}

void clt_verify_bench_keep(clt_verify_bench *b)
{
    clt_verify_images_keep(b->image, (size_t)b->plan->n_slabs);
}

/* --- running --- */

static bool phase_writes(const clt_graph *graph, clt_phase phase, const clt_tensor *t)
{
    switch (t->cls) {
    case CLT_TC_PARAM:
        return phase == CLT_PHASE_FORWARD && graph->params[t->param].buffer &&
               !graph->params[t->param].frozen;
    case CLT_TC_WORKSPACE:
        return true;
    case CLT_TC_ACTIVATION:
    case CLT_TC_SAVED:
    case CLT_TC_STATE:
        return phase == CLT_PHASE_FORWARD;
    case CLT_TC_GRADIENT:
    case CLT_TC_PARAM_GRAD:
        return phase != CLT_PHASE_FORWARD;
    default:
        return false;
    }
}

static void mark_writable(clt_verify_bench *b, clt_phase phase)
{
    for (int32_t s = 0; s < b->plan->n_slabs; s++)
        memset(b->writable[s], 0, b->plan->slab_bytes[s]);
    for (size_t i = 0; i < b->plan->graph->n_tensors; i++) {
        const clt_tensor *t = clt_verify_tensor(b, (int32_t)i);
        const clt_place *place = &b->plan->place[i];
        if (place->kind == CLT_PLACE_PLAN && t->view_of < 0 && phase_writes(b->plan->graph, phase, t))
            memset(b->writable[place->slab] + place->offset, 1, place->bytes);
    }
}

/* Fails the check; names the tensor that contains the byte, or that begins nearest to it. */
static void blame(const clt_verify_bench *b, clt_phase phase, int32_t slab, size_t where,
                  clt_verify_outcome *outcome)
{
    const clt_tensor *nearest = NULL;
    const clt_place *place = NULL;
    for (size_t i = 0; i < b->plan->graph->n_tensors; i++) {
        const clt_place *p = &b->plan->place[i];
        if (p->kind != CLT_PLACE_PLAN || p->slab != slab || clt_verify_tensor(b, (int32_t)i)->view_of >= 0)
            continue;
        uint64_t distance = where < p->offset ? p->offset - where : where - p->offset;
        uint64_t best = !place                  ? UINT64_MAX
                        : where < place->offset ? place->offset - where
                                                : where - place->offset;
        if ((where >= p->offset && where < p->offset + p->bytes) || distance < best) {
            nearest = clt_verify_tensor(b, (int32_t)i);
            place = p;
            if (where >= p->offset && where < p->offset + p->bytes)
                break;
        }
    }
    if (!place)
        return;
    bool inside = where >= place->offset && where < place->offset + place->bytes;
    long long at = (long long)where - (long long)place->offset;
    clt_verify_set(outcome, CLT_VERIFY_FAIL, "%s wrote where it must not: byte %lld %s '%s' (%s, %llu bytes)",
                   clt_phase_name(phase), at, inside ? "of" : "from the start of its neighbour",
                   nearest->name, clt_tensor_class_name(nearest->cls), (unsigned long long)place->bytes);
}

clt_status clt_verify_bench_run(clt_verify_bench *b, clt_phase phase, clt_verify_outcome *outcome)
{
    CLT_TRY(clt_verify_images_write(b->image, (size_t)b->plan->n_slabs));
    b->phase = phase;
    CLT_TRY(clt_realized_run(b->realized, phase));
    CLT_TRY(ocl_finish(b->device, OCL_QUEUE_COMPUTE));
    mark_writable(b, phase);
    CLT_TRY(clt_verify_images_read(b->image, (size_t)b->plan->n_slabs));
    for (int32_t s = 0; s < b->plan->n_slabs; s++) {
        const clt_verify_image *image = &b->image[s];
        size_t where;
        if (!clt_verify_changed(image->before, image->after, b->writable[s], image->bytes, &where))
            continue;
        blame(b, phase, s, where, outcome);
        clt_verify_from(outcome, (clt_verify_source){.buffer = image->buffer, .dtype = CLT_U8});
        clt_verify_report_wrong_value(outcome, where, image->after[where], image->before[where], 0.0);
    }
    return CLT_OK;
}
