/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts predictions by class during an evaluation: finds where the graph has logits and targets, reads both
 * from the device after each micro-batch, and derives top-k accuracy, F1 and Dice from the counts. For
 * labels of words it also computes the figures of entities. */
#include "engine/train/eval/eval_metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/annotated/source_annotated.h"
#include "engine/models/models.h"
#include "engine/ops/node.h"
#include "engine/ops/op.h"

struct clt_class_reader {
    clt_class_view view;
    clt_class_counts *counts;
    bool entities, entities_only; /* entities are counted; only entities are counted */
    float *logits;
    void *targets;
};

/* --- where classes are --- */

/* True if x without its dimension `axis` has the shape of t. */
static bool fits_without(const clt_shape *x, const clt_shape *t, int axis)
{
    if (t->ndim != x->ndim - 1)
        return false;
    for (int i = 0; i < t->ndim; i++)
        if (t->dim[i] != x->dim[i < axis ? i : i + 1])
            return false;
    return true;
}

/* True if the classes are dimension 1: logits (N,C,spatial...), targets (N,spatial...). Otherwise they are
 * the last dimension, (N,...,C). */
static bool classes_second(const clt_shape *x, const clt_shape *t)
{
    return x->ndim > 2 && fits_without(x, t, 1) && !fits_without(x, t, x->ndim - 1);
}

static bool view_classes(const clt_node *loss, const clt_shape *x, const clt_shape *t, clt_class_view *v)
{
    clt_class_batch *b = &v->batch;
    int64_t all = clt_shape_elements(x), targets = clt_shape_elements(t);
    int64_t axis = clt_node_attr(loss, "axis")->i; /* 1 or -1 if the op fixes the axis */
    bool second = axis == 1 || (axis != -1 && classes_second(x, t));
    int64_t width = second ? x->dim[1] : clt_shape_last(x);
    const clt_attr *classes = clt_node_attr(loss, "classes");
    b->samples = x->dim[0];
    b->places = targets / b->samples;
    if (x->ndim < 2 || width < 2 || targets * width != all)
        return false;
    v->classes = classes->i > 0 ? classes->i : width;
    b->sample_stride = all / b->samples;
    b->place_stride = second ? 1 : width;
    b->class_stride = second ? b->places : 1;
    return true;
}

/* Describes a model that has one logit for each target, yes or no; false if it has not. */
static bool view_binary(const clt_shape *x, const clt_shape *t, clt_class_view *v)
{
    int64_t all = clt_shape_elements(x);
    clt_class_batch *b = &v->batch;
    if (all != clt_shape_elements(t) || (x->ndim > 1 && x->dim[1] != 1))
        return false;
    v->classes = 2;
    b->samples = x->dim[0];
    b->places = all / b->samples;
    b->sample_stride = b->places;
    b->place_stride = 1;
    b->binary = true;
    return true;
}

bool clt_class_view_of(const clt_config *config, const clt_graph *graph, clt_class_view *v, const char **why)
{
    const clt_loss *l = &graph->losses[0];
    const clt_node *loss = graph->nodes[l->node];
    const char *op = loss->op->name;
    int32_t field = clt_graph_find_field(graph, l->target_field);
    memset(v, 0, sizeof *v);
    *why = "its first loss is neither cross_entropy, dice_loss nor bce_with_logits of one output, so it "
           "predicts no classes";
    if (field < 0)
        return false;
    if (clt_annotated_spans(config)) {
        *why = "it predicts places in texts, not classes";
        return false;
    }
    v->logits = loss->in[0];
    v->target = graph->fields[field].tensor;
    const clt_tensor *x = clt_graph_tensor(graph, v->logits), *t = clt_graph_tensor(graph, v->target);
    v->batch.target_dtype = t->dtype;
    v->batch.has_ignore = l->has_ignore;
    v->batch.ignore = l->ignore_index;
    v->language =
        clt_model_family_of(config)->part->language || clt_config_chosen(config, "data.type")->language;
    bool number = !clt_dtype_is_float(t->dtype), found = false;
    if (strcmp(op, "bce_with_logits") == 0 ||
        (strcmp(op, "dice_loss") == 0 && x->shape.ndim > 1 && x->shape.dim[1] == 1))
        found = view_binary(&x->shape, &t->shape, v);
    else if (number && (strcmp(op, "cross_entropy") == 0 || strcmp(op, "dice_loss") == 0))
        found = view_classes(loss, &x->shape, &t->shape, v);
    bool texts = clt_source_type_of(config) == &clt_source_annotated;
    v->spatial = !v->language && !texts && v->batch.places > 1;
    return found;
}

/* --- whether to count --- */

static bool counts_correct(const clt_graph *graph)
{
    for (int i = 0; i < graph->n_losses; i++)
        if (graph->nodes[graph->losses[i].node]->op->flags & CLT_OP_CORRECT)
            return true;
    return false;
}

/* True if the evaluation data are words whose labels name entities. */
static bool has_entities(const clt_job *job)
{
    const clt_source *s = job->eval_source;
    return s->type == &clt_source_annotated && clt_entities_named(s->class_names, s->n_class_names) &&
           clt_config_choice(job->config, "data.task") == CLT_ANNOTATED_WORDS;
}

/* Checks that evaluations will give the figure that chooses the best checkpoint and ends a run early. */
static clt_status check_best(const clt_job *job, const clt_class_view *view)
{
    const clt_config *c = job->config;
    int best = clt_config_choice(c, "checkpoint.best");
    int64_t patience = clt_config_int(c, "train.early_stop_evals");
    if (patience > 0 && !job->eval_source)
        CLT_FAIL(CLT_ECONFIG,
                 "train.early_stop_evals %lld: there is no evaluation data, so nothing would end the "
                 "training early; name some with data.eval_path",
                 (long long)patience);
    if (best == CLT_BEST_ACCURACY && !counts_correct(job->model))
        CLT_FAIL(CLT_ECONFIG, "checkpoint.best accuracy: the model's losses count no correct predictions; "
                              "choose loss");
    if (best == CLT_BEST_TOP_K && clt_config_int(c, "train.eval_top_k") >= view->classes)
        CLT_FAIL(
            CLT_ECONFIG,
            "checkpoint.best top_k: with %lld classes every prediction is right among the top %lld; choose "
            "accuracy, or a smaller train.eval_top_k",
            (long long)view->classes, (long long)clt_config_int(c, "train.eval_top_k"));
    if (best == CLT_BEST_DICE && !view->spatial)
        CLT_FAIL(CLT_ECONFIG,
                 "checkpoint.best dice: each sample has one target, so this is not a segmentation; "
                 "choose f1, accuracy or loss");
    if (best == CLT_BEST_ENTITY_F1 && job->eval_source && !has_entities(job))
        CLT_FAIL(CLT_ECONFIG,
                 "checkpoint.best entity_f1: the data are not words whose labels have names such as B-PER, "
                 "I-PER and O (data.task tokens); choose f1, accuracy or loss");
    return CLT_OK;
}

clt_status clt_eval_classes_check(const clt_job *job)
{
    const char *key = clt_job_class_key(job->config), *why;
    clt_class_view view = {0};
    if (!clt_class_view_of(job->config, job->model, &view, &why) && key)
        CLT_FAIL(CLT_ECONFIG, "%s: evaluations cannot count by class: %s", key, why);
    return check_best(job, &view);
}

clt_status clt_eval_classes_prepare(clt_run *run)
{
    clt_job *job = run->job;
    bool train = job->kind == CLT_JOB_TRAIN, command = job->kind == CLT_JOB_EVAL && run->options->classes;
    clt_class_view view = {0};
    const char *why;
    if (train)
        CLT_TRY(clt_eval_classes_check(job));
    if ((!train && !command) || !job->eval_source || !clt_class_view_of(job->config, job->model, &view, &why))
        return CLT_OK;
    /* logits of a language model are large, and its tokens are not really classes */
    bool entities = has_entities(job),
         classes = train ? clt_job_class_key(job->config) != NULL
                         : !view.language || clt_config_bool(job->config, "train.eval_metrics");
    if (!classes && !entities)
        return CLT_OK;
    CLT_TRY(clt_alloc(&run->classes, 1, sizeof *run->classes, "metrics of classes"));
    run->classes->view = view;
    run->classes->entities = entities;
    run->classes->entities_only = !classes;
    job->predicts = true;
    return CLT_OK;
}

/* --- counting --- */

static clt_status take_facts_names(const clt_data_facts *facts, clt_class_counts *counts)
{
    CLT_FREED const char **names = NULL;
    const char *name = facts->class_names.text;
    CLT_TRY(clt_alloc(&names, (size_t)facts->n_class_names, sizeof *names, "names of classes"));
    for (int64_t i = 0; i < facts->n_class_names; i++, name += strlen(name) + 1)
        names[i] = name;
    return clt_class_counts_take_names(counts, names, facts->n_class_names);
}

static clt_status make_counts(clt_run *run)
{
    struct clt_class_reader *r = run->classes;
    const clt_config *config = run->options->config;
    const clt_class_batch *b = &r->view.batch;
    const char *why;
    if (!clt_class_view_of(config, run->job->model, &r->view,
                           &why)) /* again: data.micro_batch auto is known only now */
        CLT_FAIL(CLT_EINTERNAL, "metrics of classes: %s", why);
    const clt_job *job = run->job;
    const clt_source *source = job->train_source ? job->train_source : job->eval_source;
    CLT_TRY(clt_class_counts_create(r->view.classes, (int32_t)clt_config_int(config, "train.eval_top_k"),
                                    &r->counts));
    r->counts->spatial = r->view.spatial;
    r->counts->background = clt_config_bool(config, "train.eval_background") || r->view.classes < 2;
    if (job->facts && job->facts->n_class_names > 0)
        CLT_TRY(take_facts_names(job->facts, r->counts));
    else
        CLT_TRY(clt_class_counts_take_names(r->counts, source->class_names, source->n_class_names));
    if (r->entities)
        CLT_TRY(clt_class_counts_take_entities(r->counts));
    CLT_TRY(clt_alloc(&r->logits, (size_t)(b->samples * b->sample_stride), sizeof *r->logits, "predictions"));
    return clt_alloc(&r->targets, (size_t)(b->samples * b->places), clt_dtype_bytes(b->target_dtype),
                     "targets");
}

clt_status clt_eval_classes_begin(clt_run *run)
{
    if (!run->classes)
        return CLT_OK;
    if (!run->classes->targets)
        CLT_TRY(make_counts(run));
    clt_class_counts_reset(run->classes->counts);
    return CLT_OK;
}

clt_status clt_eval_classes_take(clt_run *run, int64_t valid_samples)
{
    struct clt_class_reader *r = run->classes;
    if (!r)
        return CLT_OK;
    CLT_TRY(clt_realized_read_f32(run->eval, r->view.logits, r->logits));
    CLT_TRY(clt_realized_read(run->eval, r->view.target, r->targets));
    clt_class_batch batch = r->view.batch;
    batch.logits = r->logits;
    batch.targets = r->targets;
    batch.samples = valid_samples; /* the rest of the last micro-batch is padding */
    return clt_class_counts_add(r->counts, &batch);
}

/* Adds up the counts of all ranks. */
static clt_status end_entities(clt_run *run, clt_entities *e, clt_eval_metrics *m)
{
    if (run->ranks.ranks > 1)
        CLT_TRY(comm_all_reduce(run->options->comm, e->all, e->n_all, COMM_I64, COMM_SUM));
    clt_entity_figures f = clt_entities_figures(e, -1);
    m->entities = f.there;
    m->entity_precision = f.precision;
    m->entity_recall = f.recall;
    m->entity_f1 = f.f1;
    return CLT_OK;
}

clt_status clt_eval_classes_end(clt_run *run, clt_eval_metrics *m)
{
    m->top_k_accuracy = m->f1 = m->dice = NAN;
    if (!run->classes)
        return CLT_OK;
    clt_class_counts *c = run->classes->counts;
    if (run->ranks.ranks > 1)
        CLT_TRY(comm_all_reduce(run->options->comm, c->all, (int64_t)c->n_all, COMM_I64, COMM_SUM));
    if (run->ranks.ranks > 1 && c->spatial)
        CLT_TRY(comm_all_reduce(run->options->comm, c->dice_sum, c->classes, COMM_F64, COMM_SUM));
    if (c->entities)
        CLT_TRY(end_entities(run, c->entities, m));
    if (run->classes->entities_only)
        return CLT_OK;
    m->classes = c->classes;
    m->top_k = c->top_k;
    m->top_k_accuracy = clt_class_top_k(c);
    m->f1 = clt_class_macro_f1(c);
    m->dice = clt_class_mean_dice(c);
    return CLT_OK;
}

void clt_eval_classes_free(clt_run *run)
{
    struct clt_class_reader *r = run->classes;
    if (!r)
        return;
    clt_class_counts_destroy(r->counts);
    free(r->logits);
    free(r->targets);
    free(r);
    run->classes = NULL;
}

clt_class_counts *clt_eval_classes_release(clt_run *run)
{
    clt_class_counts *counts = run->classes ? run->classes->counts : NULL;
    if (run->classes)
        run->classes->counts = NULL;
    return counts;
}

const clt_class_counts *clt_eval_classes(const clt_run *run)
{
    return run->classes ? run->classes->counts : NULL;
}

/* --- the figure that decides --- */

double clt_eval_figure(const clt_eval_metrics *m, int best)
{
    switch ((clt_best)best) {
    case CLT_BEST_ACCURACY:
        return m->accuracy;
    case CLT_BEST_TOP_K:
        return m->top_k_accuracy;
    case CLT_BEST_F1:
        return m->f1;
    case CLT_BEST_DICE:
        return m->dice;
    case CLT_BEST_ENTITY_F1:
        return m->entities > 0 ? m->entity_f1 : NAN;
    case CLT_BEST_NONE:
    case CLT_BEST_LOSS:
        break;
    }
    return m->loss;
}

bool clt_eval_better(int best, double a, double b, double delta)
{
    bool lower = best == CLT_BEST_NONE || best == CLT_BEST_LOSS;
    if (!isfinite(a))
        return false;
    return !isfinite(b) || (lower ? a < b - delta : a > b + delta);
}

const char *clt_eval_figure_name(int best)
{
    static const char *const names[] = {[CLT_BEST_NONE] = "loss",
                                        [CLT_BEST_LOSS] = "loss",
                                        [CLT_BEST_ACCURACY] = "accuracy",
                                        [CLT_BEST_TOP_K] = "top-k accuracy",
                                        [CLT_BEST_F1] = "macro F1",
                                        [CLT_BEST_DICE] = "mean Dice",
                                        [CLT_BEST_ENTITY_F1] = "F1 of entities"};
    return names[best];
}
