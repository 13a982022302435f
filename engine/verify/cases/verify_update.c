/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of the update: norm, clipping, skipped steps, loss scale, schedule and every optimizer, in each
 * variant, compared with double precision, and run twice for bitwise equality. A case is a small net whose
 * parameters differ in group, learning rate and size. The net is never run: gradients are written into the
 * store, the update runs several times, and after each run the whole store is read back, so that gaps
 * between parameters and frozen parameters are checked, too. Knows plans and stores. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/ops/node.h"
#include "engine/verify/cases/verify_update_run.h"

static const clt_arena_kind arenas[CLT_IMAGES + 1] = {CLT_ARENA_PARAM, CLT_ARENA_GRAD, CLT_ARENA_OPT1,
                                                      CLT_ARENA_OPT2,  CLT_ARENA_EMA,  CLT_ARENA_WORK};

/* --- the net --- */

/* Builds x -> linear "first" (of the case's size) -> linear "second" (its weight frozen) -> two losses. The
 * net has a weight with weight decay, biases without, one parameter with half the learning rate and one with
 * learning rate zero. A deeper net has two more linear layers after "first": one of the transposed size, and
 * one of the first size. */
static clt_status make_graph(const clt_update_case *c, clt_graph **out)
{
    CLT_SCOPED(clt_graph) *graph = NULL;
    clt_node *first, *last, *second, *loss;
    clt_shape in = clt_shape1(c->cols), target = clt_shape1(11);
    int32_t x, y;
    char attrs[64];
    *out = NULL;
    CLT_TRY(clt_graph_create(2, &graph));
    snprintf(attrs, sizeof attrs, "{\"out\":%lld}", (long long)c->rows);
    CLT_TRY(clt_graph_field(graph, "x", CLT_F32, &in, &x));
    CLT_TRY(clt_graph_field(graph, "y", CLT_F32, &target, &y));
    CLT_TRY(clt_graph_add_text(graph, "linear", "first", attrs, &x, 1, &first));
    last = first;
    if (c->deeper) {
        CLT_TRY(clt_graph_add_op(graph, "linear", "turned", NULL, &first->out[0], 1,
                                 CLT_ATTRS(CLT_A_INT("out", c->cols)), &last));
        CLT_TRY(clt_graph_add_text(graph, "linear", "twin", attrs, &last->out[0], 1, &last));
    }
    CLT_TRY(clt_graph_add_text(graph, "linear", "second", "{\"out\":11}", &last->out[0], 1, &second));
    int32_t loss_in[2] = {second->out[0], y};
    CLT_TRY(clt_graph_add_text(graph, "mse", "loss", NULL, loss_in, 2, &loss));
    CLT_TRY(clt_graph_add_text(graph, "l1", "last_loss", NULL, loss_in, 2, &loss));
    graph->params[first->param[1]].lr_scale = 0.5f;
    graph->params[second->param[1]].lr_scale = 0.0f;
    graph->params[second->param[0]].frozen = true;
    *out = CLT_TAKE(graph);
    return CLT_OK;
}

static clt_status make_plan(const clt_verify_session *session, clt_update_run *r)
{
    clt_graph *graph;
    ocl_device_desc desc = clt_verify_desc(session);
    if (r->c->slab_bytes)
        desc.max_alloc_bytes = r->c->slab_bytes;
    clt_plan_options options = {.mode = CLT_PLAN_TRAIN,
                                .accumulation = 1,
                                .ranks = 1,
                                .storage = r->c->storage,
                                .update = r->c->spec,
                                .force_variant = r->variant};
    options.update.schedule_entries = ENTRIES;
    CLT_TRY(make_graph(r->c, &graph));
    return clt_plan_compute(graph, &desc, &options, &r->bench->plan);
}

static clt_status make_images(clt_update_run *r)
{
    for (int32_t s = 0; s < r->layout->n_slabs; s++) {
        /* the last slab of gradients is one chunk longer */
        size_t room = (r->layout->slab_elements[s] + CLT_STORE_CHUNK) * sizeof(float);
        for (int a = 0; a <= CLT_IMAGES; a++)
            CLT_TRY(clt_verify_image_make(r->bench->arena, r->bench->store->slab[arenas[a]][s],
                                          clt_store_slab_bytes(r->layout, arenas[a], s), room,
                                          &r->image[s][a]));
        for (int a = 0; a < CLT_IMAGES; a++) {
            r->before[a][s] = (float *)(void *)r->image[s][a].before;
            r->after[a][s] = (float *)(void *)r->image[s][a].after;
        }
        r->narrow_before[s] = (uint16_t *)(void *)r->image[s][CLT_IMAGE_NARROW].before;
        r->narrow_after[s] = (uint16_t *)(void *)r->image[s][CLT_IMAGE_NARROW].after;
        memset(r->narrow_before[s], 0x5b, room);
    }
    return CLT_OK;
}

static size_t images_of(const clt_update_run *r)
{
    return (size_t)r->layout->n_slabs * (CLT_IMAGES + 1);
}

static clt_status realise(const clt_verify_session *session, clt_update_run *r)
{
    CLT_TRY(make_plan(session, r));
    r->layout = r->bench->plan->store;
    CLT_TRY(clt_verify_realise(r->bench, 1u << CLT_PHASE_UPDATE));
    CLT_TRY(clt_arena_create(&r->bench->arena));
    return make_images(r);
}

/* --- data --- */

/* True if the case sets part `what` of the parameter to zero. */
static bool is_zero(const clt_update_run *r, uint32_t number, int what)
{
    return number == 0 && (int)r->c->zero == what;
}

static double normal(const clt_update_run *r, const clt_verify_stream *stream, uint64_t i)
{
    return clt_rng_normal(r->seed, CLT_RNG_VERIFY, stream->number, stream->key, i);
}

/* A number exactly between two neighbouring numbers of the 16-bit type, the lower of which is odd or even:
 * it must be rounded to the even one. */
static float tie(clt_dtype type, uint32_t i)
{
    uint16_t h = (uint16_t)((type == CLT_F16 ? 0x3c00u : 0x3f80u) + i % 64u);
    float a = type == CLT_F16 ? clt_f16_to_f32(h) : clt_bf16_to_f32(h);
    float b = type == CLT_F16 ? clt_f16_to_f32((uint16_t)(h + 1)) : clt_bf16_to_f32((uint16_t)(h + 1));
    return 0.5f * a + 0.5f * b;
}

/* Fills parameters and moments. A parameter with learning rate zero keeps its values, which are such ties. */
static void fill_slot(clt_update_run *r, const clt_store_slot *slot, uint32_t number)
{
    clt_verify_stream stream = clt_verify_stream_make(r->seed, r->c->name, 16 * number);
    int states = r->layout->opt_states;
    for (uint64_t i = 0; i < slot->elements; i++) {
        uint64_t at = slot->offset + i;
        double v = normal(r, &stream, 3 * i + 2);
        r->before[CLT_IMAGE_PARAM][slot->slab][at] =
            is_zero(r, number, ZERO_VALUES) ? 0.0f : (float)normal(r, &stream, 3 * i);
        if (slot->lr_scale == 0.0f && r->c->storage != CLT_F32)
            r->before[CLT_IMAGE_PARAM][slot->slab][at] = tie(r->c->storage, (uint32_t)i);
        if (slot->trainable && r->layout->ema)
            r->before[CLT_IMAGE_AVERAGE][slot->slab][at] = (float)v;
        if (is_zero(r, number, ZERO_GRADIENTS))
            continue;
        if (slot->trainable && states > 0)
            r->before[CLT_IMAGE_MOMENT1][slot->slab][at] = (float)(0.1 * normal(r, &stream, 3 * i + 1));
        if (slot->trainable && states > 1)
            r->before[CLT_IMAGE_MOMENT2][slot->slab][at] = (float)(0.01 * v * v);
    }
}

static void fill_gradients(clt_update_run *r, const clt_store_slot *slot, uint32_t number, int step)
{
    clt_verify_stream stream = clt_verify_stream_make(r->seed, r->c->name, 16 * number + 1 + (uint32_t)step);
    double size = (r->c->gradients > 0.0 ? r->c->gradients : 0.1) * (r->c->steps[step] == HIGH_NORM ? 50 : 1);
    if (!slot->trainable)
        return;
    if (is_zero(r, number, ZERO_GRADIENTS) || IS_EXACT(r->c->steps[step]))
        size = 0.0;
    for (uint64_t i = 0; i < slot->elements; i++) {
        bool low = r->c->steep && (slot->elements < CLT_STORE_CHUNK || i >= CLT_STORE_CHUNK);
        r->before[CLT_IMAGE_GRAD][slot->slab][slot->offset + i] =
            (float)((low ? STEEP * size : size) * normal(r, &stream, i)) *
            fminf(r->state.loss_scale, 0x1p+50f);
    }
}

static clt_status begin(clt_update_run *r)
{
    const clt_update_spec *spec = &r->c->spec;
    for (int u = 0; u < ENTRIES; u++) {
        double correction[CLT_OPTIMIZER_CORRECTIONS] = {0};
        if (spec->optimizer->corrections)
            spec->optimizer->corrections(spec->value, u + 1, correction);
        r->schedule[u][0] = 0.05f * (float)(u + 1);
        r->schedule[u][1] = (float)correction[0];
        r->schedule[u][2] = (float)correction[1];
    }
    for (int32_t i = 0; i < r->layout->n_slots; i++)
        fill_slot(r, &r->layout->slots[i], (uint32_t)i);
    r->state = (clt_state_block){.loss_scale = r->c->loss_scale};
    CLT_TRY(clt_store_set_groups(r->bench->store, (float)spec->weight_decay));
    CLT_TRY(clt_store_set_schedule(r->bench->store, r->schedule[0]));
    return clt_store_set_state(r->bench->store, &r->state);
}

/* --- expected results --- */

static double squares(const clt_update_run *r)
{
    double sum = 0.0;
    for (int32_t s = 0; s < r->layout->n_slabs; s++)
        for (uint64_t i = 0; i < r->layout->trainable_elements[s]; i++)
            sum += (double)r->before[CLT_IMAGE_GRAD][s][i] * (double)r->before[CLT_IMAGE_GRAD][s][i];
    return sum;
}

static double deviations(float *mean, float *variance, double x, uint32_t steps, uint32_t window)
{
    double away = x - (double)*mean, deviation = sqrt((double)*variance), found = 0.0;
    double share = 1.0 / (steps + 1 < window ? steps + 1 : window);
    if (steps >= window && deviation > 0.0) {
        found = away / deviation;
        away = fmax(-10.0 * deviation, fmin(away, 10.0 * deviation));
    }
    *mean = (float)((double)*mean + share * away);
    *variance = (float)((1.0 - share) * ((double)*variance + share * away * away));
    return found;
}

/* Adds a step with finite values to the statistics; true: the step is a spike. */
static bool judge(clt_update_run *r, double norm)
{
    const clt_spike_rule *rule = &r->c->spec.spike;
    clt_state_block *s = &r->state;
    uint32_t steps = s->judged;
    s->loss_z = (float)deviations(&s->loss_mean, &s->loss_variance, r->loss, steps, rule->window);
    s->norm_z = (float)deviations(&s->norm_mean, &s->norm_variance, norm, steps, rule->window);
    s->judged = steps + 1 < rule->window ? steps + 1 : rule->window;
    if (!isfinite(s->loss_variance) || !isfinite(s->norm_variance)) { /* resets the statistics */
        s->judged = 0;
        s->loss_mean = s->norm_mean = s->loss_variance = s->norm_variance = 0.0f;
    }
    return rule->action != CLT_SPIKE_OFF &&
           ((rule->loss > 0 && s->loss_z > rule->loss) || (rule->gradient > 0 && s->norm_z > rule->gradient));
}

static void judge_step(clt_update_run *r, bool good, double norm)
{
    const clt_spike_rule *rule = &r->c->spec.spike;
    clt_state_block *s = &r->state;
    s->loss_z = s->norm_z = 0.0f;
    if (!good || rule->window == 0 || !judge(r, norm))
        return;
    s->spiked++;
    if (rule->action == CLT_SPIKE_SKIP)
        s->skip = ST_SKIP_SPIKE;
}

/* Computes the state block after the step; returns the factor on gradients. good: everything is finite. */
static double next_state(clt_update_run *r, bool good)
{
    const clt_loss_scaling *scaling = &r->c->spec.scaling;
    clt_state_block *s = &r->state;
    uint32_t line = s->update < ENTRIES ? s->update : ENTRIES - 1;
    double scale = (double)s->loss_scale, norm = sqrt(squares(r)) / scale;
    double factor = clt_clip_reference((double)r->c->spec.clip, norm) / scale;
    s->grad_norm = (float)norm;
    s->clip = (float)factor;
    s->lr = r->schedule[line][0];
    s->correction1 = r->schedule[line][1];
    s->correction2 = r->schedule[line][2];
    s->skip = good ? ST_SKIP_NONE : ST_SKIP_NONFINITE;
    judge_step(r, good, norm);
    s->skipped += s->skip != ST_SKIP_NONE;
    s->skipped_row = good ? 0 : s->skipped_row + 1;
    s->update += s->skip == ST_SKIP_NONE;
    if (!scaling->dynamic)
        return factor;
    s->growth = good ? s->growth + 1 : 0;
    if (!good)
        s->loss_scale = fmaxf((float)(scale * scaling->backoff), scaling->minimum);
    if (s->growth == scaling->interval) {
        double grown = scale * scaling->growth;
        s->loss_scale = grown > (double)FLT_MAX ? s->loss_scale : (float)grown;
        s->growth = 0;
    }
    return factor;
}

static void expect_near(clt_update_run *r, const char *name, double found, double want, double bound)
{
    bool same = isfinite(want) ? fabs(found - want) <= bound : !isfinite(found);
    if (!same)
        clt_verify_set(r->outcome, CLT_VERIFY_FAIL, "%s: the state's %s is %.9g, the reference %.9g", r->what,
                       name, found, want);
}
static void expect_word(clt_update_run *r, const char *name, double found, double want, double relative)
{
    expect_near(r, name, found, want, relative * fabs(want));
}

/* Compares mean, variance and deviations of the loss or of the norm, whose newest value is x. Errors of
 * differences are relative to the subtracted numbers, which may be much larger than the difference. */
static void expect_judged(clt_update_run *r, const char *const names[3], const float found[3],
                          const float want[3], double x)
{
    double size = isfinite(x) ? fabs(x) : 0.0; /* a step without finite values changes none of the three */
    double rounding = 16.0 * CLT_VERIFY_EPS * fmax(size, fabs((double)want[0]));
    double deviation = sqrt((double)want[1]);
    double bound[3] = {rounding, rounding * deviation, deviation > 0.0 ? rounding / deviation : 0.0};
    for (int i = 0; i < 3; i++)
        expect_near(r, names[i], (double)found[i], (double)want[i], 1e-4 * fabs((double)want[i]) + bound[i]);
}

static void check_state(clt_update_run *r)
{
    const clt_state_block *f = &r->found, *s = &r->state;
    const double norm_error = 16.0 * CLT_VERIFY_EPS;
    expect_word(r, "skip flag", f->skip, s->skip, 0.0);
    expect_word(r, "count of spikes", f->spiked, s->spiked, 0.0);
    expect_word(r, "count of judged steps", f->judged, s->judged, 0.0);
    expect_judged(r, (const char *const[]){"mean loss", "variance of the loss", "deviations of the loss"},
                  (const float[]){f->loss_mean, f->loss_variance, f->loss_z},
                  (const float[]){s->loss_mean, s->loss_variance, s->loss_z}, r->loss);
    expect_judged(r, (const char *const[]){"mean norm", "variance of the norm", "deviations of the norm"},
                  (const float[]){f->norm_mean, f->norm_variance, f->norm_z},
                  (const float[]){s->norm_mean, s->norm_variance, s->norm_z}, (double)s->grad_norm);
    expect_word(r, "count of updates", f->update, s->update, 0.0);
    expect_word(r, "count of skipped updates", f->skipped, s->skipped, 0.0);
    expect_word(r, "count of skipped updates in a row", f->skipped_row, s->skipped_row, 0.0);
    expect_word(r, "count of good steps", f->growth, s->growth, 0.0);
    expect_word(r, "loss scale", (double)f->loss_scale, (double)s->loss_scale, 0.0);
    expect_word(r, "gradient norm", (double)f->grad_norm, (double)s->grad_norm, norm_error);
    expect_word(r, "learning rate", (double)f->lr, (double)s->lr, 0.0);
    expect_word(r, "first correction", (double)f->correction1, (double)s->correction1, 0.0);
    expect_word(r, "second correction", (double)f->correction2, (double)s->correction2, 0.0);
    if (!s->skip)
        expect_word(r, "factor on gradients", (double)f->clip, (double)s->clip, norm_error);
    r->state = r->found; /* the next step starts from the device's values */
}

/* Checks elements that the update must not change: all of them after a skipped step, else gaps and frozen
 * parameters. */
static clt_status check_untouched(clt_update_run *r, bool good)
{
    const clt_store_layout *layout = r->layout;
    for (int32_t s = 0; s < layout->n_slabs; s++) {
        size_t n = layout->slab_elements[s], where;
        uint8_t *writable;
        CLT_TRY(clt_alloc(&writable, n * sizeof(float), 1, "map of a store slab"));
        for (int32_t i = 0; i < layout->n_slots && good; i++)
            if (layout->slots[i].slab == s && layout->slots[i].trainable)
                memset(writable + layout->slots[i].offset * sizeof(float), 1,
                       layout->slots[i].elements * sizeof(float));
        for (int a = 0; a < CLT_IMAGES; a++) {
            uint64_t bytes = clt_store_slab_bytes(layout, arenas[a], s);
            if (a == CLT_IMAGE_GRAD) /* loss records follow */
                bytes = layout->trainable_elements[s] * sizeof(float);
            if (bytes && clt_verify_changed((uint8_t *)r->before[a][s], (uint8_t *)r->after[a][s],
                                            a == CLT_IMAGE_GRAD ? NULL : writable, bytes, &where))
                clt_verify_set(r->outcome, CLT_VERIFY_FAIL,
                               "%s: element %zu of the %s changed (slab %d), which must not", r->what,
                               where / sizeof(float), clt_arenas[arenas[a]].name, s);
        }
        free(writable);
    }
    return CLT_OK;
}

/* Checks that the 16-bit copies are the new parameters rounded to nearest even, also in gaps. */
static void check_narrow(clt_update_run *r, bool good)
{
    const clt_store_layout *layout = r->layout;
    clt_dtype type = layout->working;
    for (int32_t s = 0; s < layout->n_slabs && type != CLT_F32; s++) {
        for (uint64_t i = 0; i < layout->slab_elements[s]; i++) {
            float p = r->after[CLT_IMAGE_PARAM][s][i];
            bool written = good && i < layout->trainable_elements[s];
            uint16_t want = !written          ? r->narrow_before[s][i]
                            : type == CLT_F16 ? clt_f32_to_f16(p)
                                              : clt_f32_to_bf16(p);
            if (r->narrow_after[s][i] != want) {
                clt_verify_set(r->outcome, CLT_VERIFY_FAIL,
                               "%s: the 16-bit copy of element %llu (slab %d, %.9g) is %04x and must be %04x",
                               r->what, (unsigned long long)i, s, (double)p, r->narrow_after[s][i], want);
                return;
            }
        }
    }
}

/* --- a step --- */

static clt_status prepare_step(clt_update_run *r, int step, char kind)
{
    const clt_store_layout *layout = r->layout;
    const clt_store_slot *first = NULL, *last = NULL;
    float losses[2][4] = {{0.5f, 0.25f, 2.0f, 1.0f}, {1.5f, 3.0f, 2.0f, 1.0f}};
    for (int32_t i = 0; i < layout->n_slots; i++) {
        const clt_store_slot *slot = &layout->slots[layout->order[i]];
        fill_gradients(r, slot, (uint32_t)layout->order[i], step);
        first = first || !slot->trainable ? first : slot;
        last = slot->trainable ? slot : last;
    }
    if (!first || !last)
        CLT_FAIL(CLT_EINTERNAL, "checking the update: the net has no trainable parameter");
    if (kind == INFINITE)
        r->before[CLT_IMAGE_GRAD][last->slab][last->offset + last->elements - 1] = INFINITY;
    if (kind == GRAD_NAN)
        r->before[CLT_IMAGE_GRAD][first->slab][first->offset] = NAN;
    if (kind == HUGE_NORM)
        r->before[CLT_IMAGE_GRAD][first->slab][first->offset] = 1e18f;
    if (IS_EXACT(kind))
        r->before[CLT_IMAGE_GRAD][first->slab][first->offset] = (float)(kind - '0') * r->state.loss_scale;
    CLT_TRY(clt_verify_images_write(r->image[0], images_of(r)));
    losses[1][0] += 0.125f * (float)(step % 3) + (kind == HIGH_LOSS   ? 10.0f
                                                  : kind == HUGE_LOSS ? 1e30f
                                                                      : 0.0f);
    losses[1][0] = kind == LOSS_NAN ? NAN
                   : IS_EXACT(kind) ? (float)(kind - '0') - losses[0][0]
                                    : losses[1][0];
    r->loss = (double)losses[0][0] + (double)losses[1][0];
    return clt_realized_write(r->bench->realized, r->bench->plan->losses, losses);
}

static clt_status run_step(clt_update_run *r, int step)
{
    char kind = r->c->steps[step];
    bool good = kind == GOOD || kind == HIGH_LOSS || kind == HUGE_LOSS || kind == HIGH_NORM ||
                kind == HUGE_NORM || IS_EXACT(kind);
    snprintf(r->what, sizeof r->what, "step %d%s", step + 1, good ? "" : ", which must be skipped");
    CLT_TRY(prepare_step(r, step, kind));
    CLT_TRY(clt_realized_run(r->bench->realized, CLT_PHASE_UPDATE));
    CLT_TRY(ocl_finish(r->bench->device, OCL_QUEUE_COMPUTE));
    CLT_TRY(clt_verify_images_read(r->image[0], images_of(r)));
    CLT_TRY(clt_store_get_state(r->bench->store, &r->found));
    clt_update_factors f = {.gradient = next_state(r, good)};
    f.lr = (double)r->state.lr;
    f.correction[0] = (double)r->state.correction1;
    f.correction[1] = (double)r->state.correction2;
    good = r->state.skip == ST_SKIP_NONE;
    check_state(r);
    CLT_TRY(check_untouched(r, good));
    check_narrow(r, good);
    for (int32_t i = 0; i < r->layout->n_slots && good; i++) {
        const clt_store_slot *slot = &r->layout->slots[i];
        clt_update_factors own = f;
        own.lr *= (double)slot->lr_scale;
        own.decay = slot->group == CLT_GROUP_DECAY ? (double)(float)r->c->spec.weight_decay : 0.0;
        if (slot->trainable)
            CLT_TRY(clt_verify_slot(r, slot, own));
    }
    clt_verify_images_keep(r->image[0], images_of(r));
    return CLT_OK;
}

static clt_status run_steps(clt_update_run *r)
{
    CLT_TRY(begin(r));
    for (int step = 0; r->c->steps[step] && !clt_verify_bad(r->outcome); step++)
        CLT_TRY(run_step(r, step));
    return CLT_OK;
}

/* Checks that repeating the steps gives the same bits. */
static clt_status check_bits(clt_update_run *r)
{
    uint8_t *kept[CLT_IMAGES][CLT_MAX_STORE_SLABS];
    size_t where;
    CLT_TRY(run_steps(r));
    for (int32_t s = 0; s < r->layout->n_slabs; s++) {
        size_t n = r->layout->slab_elements[s] * sizeof(float);
        for (int a = 0; a < CLT_IMAGES; a++) {
            kept[a][s] = clt_arena_alloc(r->bench->arena, n);
            if (!kept[a][s])
                return CLT_ENOMEM;
            memcpy(kept[a][s], r->after[a][s], n);
        }
        memset(r->narrow_before[s], 0x5b, n / 2);
    }
    CLT_TRY(run_steps(r));
    for (int32_t s = 0; s < r->layout->n_slabs; s++)
        for (int a = 0; a < CLT_IMAGES; a++)
            if (clt_verify_changed(kept[a][s], (uint8_t *)r->after[a][s], NULL,
                                   r->layout->slab_elements[s] * sizeof(float), &where))
                clt_verify_set(
                    r->outcome, CLT_VERIFY_FAIL,
                    "the second run differs in byte %zu of slab %d: the result depends on the order of "
                    "execution or on what memory held",
                    where, s);
    return CLT_OK;
}

/* --- all cases --- */

static clt_status check_case(clt_verify_session *session, const clt_update_case *c, const char *variant,
                             unsigned mode, clt_verify_outcome *outcome)
{
    CLT_SCOPED(clt_verify_bench) *bench = NULL;
    clt_update_case altered = *c;
    CLT_TRY(clt_verify_alter(session, CLT_VERIFY_UPDATE_CASE, &altered));
    CLT_TRY(clt_alloc(&bench, 1, sizeof *bench, "checker's bench"));
    bench->device = session->device;
    clt_update_run r = {
        .c = &altered, .variant = variant, .outcome = outcome, .seed = session->seed, .bench = bench};
    CLT_TRY(realise(session, &r));
    return mode == CLT_VERIFY_BITWISE ? check_bits(&r) : run_steps(&r);
}

static clt_status check_variant(clt_verify_session *session, const clt_update_case *c,
                                const ocl_variant *variant, unsigned mode)
{
    clt_verify_item item = {"update", c->name, variant->name, mode, c->small, false};
    clt_verify_outcome outcome;
    ocl_device_desc desc = clt_verify_desc(session);
    char reason[200], what[64];
    snprintf(what, sizeof what, "variant %s", variant->name);
    if (mode == CLT_VERIFY_BITWISE && !c->small) /* the large case only tests sizes */
        return CLT_OK;
    if (!clt_verify_wants(session, &item, &outcome))
        return CLT_OK;
    clt_status status = CLT_OK;
    if (!ocl_variant_accepts(variant, NULL, &desc, reason, sizeof reason))
        clt_verify_set(&outcome, CLT_VERIFY_SKIP, "variant %s: %s", variant->name, reason);
    else if (clt_verify_offers(session, what, variant->written_for, &outcome))
        status = check_case(session, c, variant->name, mode, &outcome);
    return clt_verify_finish(session, &outcome, status);
}

clt_status clt_verify_updates(clt_verify_session *session)
{
    static const unsigned modes[] = {CLT_VERIFY_CORRECT, CLT_VERIFY_BITWISE};
    for (const clt_update_case *c = clt_update_cases; c->name; c++)
        for (size_t v = 0; clt_update_family.variants[v]; v++)
            for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++)
                CLT_TRY(check_variant(session, c, clt_update_family.variants[v], modes[m]));
    return CLT_OK;
}
