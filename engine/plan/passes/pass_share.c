/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass 8, share: buffer aliasing of gradients. A gradient may be written over the values that it belongs to
 * where its op allows that (logits), and a gradient that would be a copy of another one uses the other one's
 * memory. For instance, a residual sum passes the same gradient to both of its inputs; for one of them the
 * next contributor adds to that gradient in place (accumulate mode), so nothing is copied or added
 * separately. Memory is shared only where replaying the work list shows that every reader finds the same
 * value that a copy would have had. Knows work and gradients, no model. */
#include <stdlib.h>
#include <string.h>

#include "engine/plan/passes/fuse.h"
#include "engine/plan/plan_internal.h"

/* A number that a trial replay changed, and its value before. */
typedef struct change {
    uint32_t *where, before;
} change;

typedef struct share {
    clt_plan *plan;
    size_t n;   /* tensors */
    bool *kept; /* by owning tensor: true if it is kept, see clt_plan_kept */
    /* by tensor: root of the chain of views that autodiff made; all views of it hold one value */
    int32_t *value;
    int32_t *memory; /* by value: the value whose memory it uses */
    size_t *last;    /* by memory: the last work that reads or writes a value that lies in it */
    /* state of the replay */
    uint32_t *writes; /* by memory: number of writes so far */
    uint32_t *holds;  /* by value: number of the write that put it into its memory, 0 if none has */
    /* by work * CLT_MAX_IN + input: gradient that shares the output gradient's memory; -1: none */
    int32_t *copied;
    change *changes; /* made by a trial, to be undone */
    size_t n_changes, room;
    bool trial;
} share;

static int32_t value_of(const share *s, int32_t tensor)
{
    return tensor < 0 ? -1 : s->value[tensor];
}

static int32_t memory_of(const share *s, int32_t value)
{
    while (s->memory[value] != value)
        value = s->memory[value];
    return value;
}

static bool together(const share *s, int32_t a, int32_t b)
{
    return a >= 0 && b >= 0 && memory_of(s, a) == memory_of(s, b);
}

static bool is_there(const share *s, int32_t value)
{
    return s->holds[value] != 0 && s->holds[value] == s->writes[memory_of(s, value)];
}

/* The tensor to which the work writes the gradient of input number `input`; -1: it writes none. */
static int32_t written(const clt_work *work, int input)
{
    return work->kind == CLT_WORK_ADD ? (input == 0 ? work->add_to : -1) : work->din[input];
}

/* The tensor from which the work reads the gradient of output number `output`; -1: it reads none. */
static int32_t read_by(const clt_work *work, int output)
{
    return work->kind == CLT_WORK_ADD ? (output == 0 ? work->add_from : -1) : work->dout[output];
}

static clt_status put(share *s, uint32_t *where, uint32_t number)
{
    if (s->trial) {
        if (s->n_changes == s->room)
            CLT_TRY(
                clt_grow(&s->changes, &s->room, s->n_changes + 1, sizeof *s->changes, "shared gradients"));
        s->changes[s->n_changes++] = (change){where, *where};
    }
    *where = number;
    return CLT_OK;
}

/* Replays one piece of work. *right is false if it would read a value that has been overwritten, or write
 * into memory that it also reads. */
static clt_status replay_work(share *s, size_t at, bool *right)
{
    const clt_work *work = &s->plan->work[at];
    const int32_t *copied = s->copied + at * CLT_MAX_IN;
    *right = false;
    if (work->kind == CLT_WORK_FORWARD) {
        *right = true;
        return CLT_OK;
    }
    for (int o = 0; o < CLT_MAX_OUT; o++) {
        int32_t in = value_of(s, read_by(work, o));
        if (in >= 0 && !is_there(s, in))
            return CLT_OK;
        for (int i = 0; i < CLT_MAX_IN && in >= 0; i++)
            if (together(s, in, value_of(s, written(work, i))))
                return CLT_OK;
    }
    for (int i = 0; i < CLT_MAX_IN; i++) {
        int32_t out = value_of(s, written(work, i));
        bool adds = work->kind == CLT_WORK_ADD || work->din_accumulate[i];
        if (out >= 0 && adds && !is_there(s, out))
            return CLT_OK;
        if (out < 0)
            continue;
        uint32_t *writes = &s->writes[memory_of(s, out)];
        CLT_TRY(put(s, writes, *writes + 1));
        CLT_TRY(put(s, &s->holds[out], *writes));
    }
    for (int i = 0; i < CLT_MAX_IN; i++) {
        int32_t value = value_of(s, copied[i]);
        if (value >= 0) /* it equals the gradient of the output, which was found in memory above */
            CLT_TRY(put(s, &s->holds[value], s->writes[memory_of(s, value)]));
    }
    *right = true;
    return CLT_OK;
}

/* Replays the works from `at`, before which all are replayed, up to the last one that uses the memory; works
 * after that cannot be affected. Undoes the replay afterwards. */
static clt_status replay(share *s, size_t at, int32_t memory, bool *right)
{
    clt_status status = CLT_OK;
    *right = true;
    s->trial = true;
    for (size_t w = at; w <= s->last[memory] && *right && status == CLT_OK; w++)
        status = replay_work(s, w, right);
    while (s->n_changes > 0) {
        s->n_changes--;
        *s->changes[s->n_changes].where = s->changes[s->n_changes].before;
    }
    s->trial = false;
    return status;
}

/* Puts the value into the memory of another one from now on. */
static void join(share *s, int32_t value, int32_t into)
{
    s->memory[value] = into;
    if (s->last[value] > s->last[into])
        s->last[into] = s->last[value];
}

/* Tries to let the gradient of input `i` share the memory of the output's gradient. */
static clt_status try_input(share *s, size_t at, int i)
{
    clt_work *work = &s->plan->work[at];
    int32_t gradient = work->din[i], source = work->dout[0];
    const clt_graph *graph = s->plan->graph;
    if (gradient < 0 || source < 0 || work->din_accumulate[i] ||
        !(work->node->op->same_grad_inputs & (1u << i)) ||
        clt_shape_elements(&clt_graph_tensor(graph, gradient)->shape) !=
            clt_shape_elements(&clt_graph_tensor(graph, source)->shape))
        return CLT_OK;
    int32_t value = value_of(s, gradient), into = memory_of(s, value_of(s, source));
    if (value != gradient || into == value || s->memory[value] != value)
        return CLT_OK;
    size_t last = s->last[into];
    bool right;
    join(s, value, into);
    s->copied[at * CLT_MAX_IN + (size_t)i] = gradient;
    work->din[i] = -1;
    CLT_TRY(replay(s, at, into, &right));
    if (right) {
        clt_graph_tensor(s->plan->graph, gradient)->view_of = into;
        return CLT_OK;
    }
    s->memory[value] = value;
    s->last[into] = last;
    s->copied[at * CLT_MAX_IN + (size_t)i] = -1;
    work->din[i] = gradient;
    return CLT_OK;
}

/* True when no work after `at` reads or writes the tensor. All works are examined, recomputed ones
 * included. */
static clt_status last_use(clt_plan *plan, int32_t owner, size_t at, bool *last)
{
    *last = true;
    for (size_t w = at + 1; w < plan->n_work && *last; w++) {
        clt_touched touched;
        CLT_TRY(clt_work_touches(plan, &plan->work[w], &touched));
        *last = !clt_touched_has(&touched, owner, OCL_READ_WRITE);
        clt_touched_free(&touched);
    }
    return CLT_OK;
}

/* Tries to let the gradient of input `i` be written over the input. */
static clt_status try_in_place(share *s, size_t at, int i)
{
    const clt_work *work = &s->plan->work[at];
    int32_t gradient = work->din[i];
    if (gradient < 0 || work->din_accumulate[i] || !(work->node->op->in_place_inputs & (1u << i)) ||
        value_of(s, gradient) != gradient)
        return CLT_OK;
    int32_t owner = clt_plan_owner(s->plan, work->node->in[i]);
    const clt_tensor *x = clt_graph_tensor(s->plan->graph, owner);
    clt_tensor *dx = clt_graph_tensor(s->plan->graph, gradient);
    bool last;
    if (x->cls != CLT_TC_ACTIVATION || x->dtype != dx->dtype || s->kept[owner] ||
        clt_shape_elements(&x->shape) != clt_shape_elements(&dx->shape))
        return CLT_OK;
    CLT_TRY(last_use(s->plan, owner, at, &last));
    if (last) {
        dx->view_of = owner;
        join(s, gradient, owner);
    }
    return CLT_OK;
}

static bool does_nothing(const clt_work *work)
{
    for (int i = 0; i < CLT_MAX_IN; i++)
        if (work->din[i] >= 0)
            return false;
    for (int i = 0; i < CLT_MAX_NODE_PARAMS; i++)
        if (work->dparam[i] >= 0)
            return false;
    return true;
}

static void note_last(share *s, size_t at)
{
    const clt_work *work = &s->plan->work[at];
    for (int k = 0; k < CLT_MAX_OUT && work->kind != CLT_WORK_FORWARD; k++)
        if (read_by(work, k) >= 0)
            s->last[value_of(s, read_by(work, k))] = at;
    for (int k = 0; k < CLT_MAX_IN && work->kind != CLT_WORK_FORWARD; k++)
        if (written(work, k) >= 0)
            s->last[value_of(s, written(work, k))] = at;
}

static clt_status share_open(share *s, clt_plan *plan, clt_scratch *scratch)
{
    s->plan = plan;
    s->n = plan->graph->n_tensors;
    CLT_TRY(clt_plan_kept(plan, &s->kept));
    CLT_TRY(clt_scratch_alloc(scratch, &s->last, s->n, sizeof *s->last, "shared gradients"));
    CLT_TRY(clt_scratch_alloc(scratch, &s->value, s->n, sizeof *s->value, "shared gradients"));
    CLT_TRY(clt_scratch_alloc(scratch, &s->memory, s->n, sizeof *s->memory, "shared gradients"));
    CLT_TRY(clt_scratch_alloc(scratch, &s->writes, s->n, sizeof *s->writes, "shared gradients"));
    CLT_TRY(clt_scratch_alloc(scratch, &s->holds, s->n, sizeof *s->holds, "shared gradients"));
    CLT_TRY(clt_scratch_alloc(scratch, &s->copied, plan->n_work * CLT_MAX_IN, sizeof *s->copied,
                              "shared gradients"));
    for (size_t i = 0; i < s->n; i++)
        s->value[i] = s->memory[i] = clt_plan_owner(plan, (int32_t)i);
    memset(s->copied, 0xff, plan->n_work * CLT_MAX_IN * sizeof *s->copied);
    for (size_t w = plan->n_forward; w < plan->n_work; w++)
        note_last(s, w);
    return CLT_OK;
}

static void share_end_scope(share *s)
{
    free(s->kept);
    free(s->changes);
}

static clt_status share_work(share *s, size_t at)
{
    const clt_work *work = &s->plan->work[at];
    bool right;
    for (int i = 0; work->kind == CLT_WORK_BACKWARD && i < work->node->n_in; i++) {
        CLT_TRY(try_in_place(s, at, i));
        CLT_TRY(try_input(s, at, i));
    }
    return replay_work(s, at, &right);
}

clt_status clt_pass_share(clt_plan *plan)
{
    CLT_SCOPED(clt_scratch) scratch = {0};
    CLT_SCOPED(share) s = {0};
    if (plan->options.mode != CLT_PLAN_TRAIN || plan->options.no_fuse)
        return CLT_OK;
    CLT_TRY(clt_plan_make_records(plan));
    CLT_TRY(share_open(&s, plan, &scratch));
    for (size_t w = plan->n_forward; w < plan->n_work; w++)
        CLT_TRY(share_work(&s, w));
    for (size_t w = plan->n_forward; w < plan->n_work; w++)
        if (plan->work[w].kind == CLT_WORK_BACKWARD && does_nothing(&plan->work[w]))
            clt_fuse_kill(&plan->work[w]);
    clt_fuse_sweep(plan);
    return CLT_OK;
}
