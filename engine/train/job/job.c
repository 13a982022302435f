/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs: makes data sources, batch sizes, schedule and plans from a config. */
#include "engine/train/job/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/data/open/synthetic_like.h"
#include "engine/data/volumes/volumes.h"
#include "engine/models/models.h"
#include "engine/ops/op.h"

/* Compute units that plans for a CPU assume with parallel.rank_invariant, however many cores the rank has.
 * It is more than most ranks have, because extra pieces of a sum cost little and cores without a piece cost
 * much. */
#define INVARIANT_UNITS 32

double clt_job_rate_factor(const clt_config *c, int64_t global_batch)
{
    int64_t base = clt_config_int(c, "optimizer.base_batch");
    return base > 0 ? (double)global_batch / (double)base : 1;
}

clt_schedule clt_job_schedule(const clt_config *c, int64_t steps, int64_t global_batch)
{
    double factor = clt_job_rate_factor(c, global_batch);
    clt_schedule s = {.type = (clt_schedule_type)clt_config_choice(c, "schedule.type"),
                      .peak = clt_config_float(c, "optimizer.learning_rate") * factor,
                      .min = clt_config_float(c, "schedule.min_learning_rate") * factor,
                      .warmup = clt_config_int(c, "schedule.warmup"),
                      .horizon = clt_config_int(c, "schedule.horizon"),
                      .every = clt_config_int(c, "schedule.step_every"),
                      .factor = clt_config_float(c, "schedule.step_factor"),
                      .power = clt_config_float(c, "schedule.power"),
                      .decay_steps = clt_config_int(c, "schedule.decay_steps")};
    if (s.horizon == 0)
        clt_schedule_span(&s, steps);
    return s;
}

void clt_job_table(const clt_job *job, float *table)
{
    const clt_update_spec *spec = &job->update;
    double correction[CLT_OPTIMIZER_CORRECTIONS] = {0};
    bool changes = spec->optimizer->corrections != NULL; /* until 1 - beta^u is exactly 1 */
    for (int64_t u = 0; u < job->steps; u++) {
        if (changes) {
            spec->optimizer->corrections(spec->value, u + 1, correction);
            changes = correction[0] < 1.0 || correction[1] < 1.0;
        }
        table[4 * u] = (float)clt_schedule_rate(&job->schedule, u);
        table[4 * u + 1] = (float)correction[0];
        table[4 * u + 2] = (float)correction[1];
        table[4 * u + 3] = 0.0f;
    }
}

static clt_status read_update(clt_job *job)
{
    const clt_config *c = job->config;
    clt_update_spec *out = &job->update;
    const char *type = clt_config_string(c, "optimizer.type");
    *out = (clt_update_spec){.optimizer = clt_optimizer_find(type),
                             .weight_decay = clt_config_float(c, "optimizer.weight_decay"),
                             .ema = job->kind == CLT_JOB_EVAL ? 0 : clt_config_float(c, "optimizer.ema"),
                             .decay_all = clt_config_choice(c, "optimizer.decay") == CLT_DECAY_ALL,
                             .clip = (float)clt_config_float(c, "optimizer.clip"),
                             .schedule_entries = job->steps};
    out->spike = (clt_spike_rule){.action = (clt_spike_action)clt_config_choice(c, "train.on_spike"),
                                  .loss = (float)clt_config_float(c, "train.spike_loss"),
                                  .gradient = (float)clt_config_float(c, "train.spike_gradient"),
                                  .window = (uint32_t)clt_config_int(c, "train.spike_window")};
    if (!out->optimizer)
        CLT_FAIL(CLT_EINTERNAL, "optimizer.type: no optimizer is called '%s'", type);
    clt_optimizer_read(out->optimizer, c, out->value);
    return CLT_OK;
}

static void mark_elementwise(clt_param *param)
{
    param->elementwise = true;
}

/* Marks the parameters that the config lists in the optimizer's key for elementwise updates, if any. */
static clt_status mark_params(const clt_config *config, clt_graph *graph)
{
    const char *key = clt_optimizer_find(clt_config_string(config, "optimizer.type"))->elementwise;
    for (int i = 0; key && i < clt_config_list_count(config, key); i++)
        CLT_TRY(clt_model_mark(graph, key, clt_config_list_string(config, key, i), mark_elementwise));
    return CLT_OK;
}

clt_status clt_job_graph(const clt_config *config, const clt_source *source, int64_t micro_batch,
                         clt_graph **out, int32_t *prediction)
{
    clt_model_inputs inputs = {
        .scale = source->scale, .mean = source->mean, .std = source->std, .channels = source->channels};
    memcpy(inputs.channel_mean, source->channel_mean, sizeof inputs.channel_mean);
    memcpy(inputs.channel_std, source->channel_std, sizeof inputs.channel_std);
    const clt_json_doc *doc;
    const clt_json *model = clt_config_model(config, &doc);
    CLT_SCOPED(clt_graph) *graph = NULL;
    *out = NULL;
    for (int i = 0; i < source->n_fields && i < CLT_MODEL_MAX_FIELDS; i++) {
        const clt_source_field *f = &source->fields[i];
        inputs.field[inputs.n_fields++] =
            (clt_model_field){f->name, f->dtype, f->shape, f->is_index ? f->max_value : -1};
    }
    CLT_TRY(clt_graph_create(micro_batch, &graph));
    clt_model_info info = {.prediction = -1};
    CLT_TRY(clt_model_build(model, doc, &inputs, graph));
    CLT_TRY(clt_model_describe(graph, &info));
    CLT_TRY(mark_params(config, graph));
    *prediction = info.prediction;
    *out = CLT_TAKE(graph);
    return CLT_OK;
}

/* precision.mode auto: a type that the device's matrix units accept, preferably bf16, which needs no loss
 * scaling. */
static clt_dtype read_storage(const clt_config *c, const ocl_device_desc *desc)
{
    switch ((clt_precision_mode)clt_config_choice(c, "precision.mode")) {
    case CLT_PRECISION_F32:
        break;
    case CLT_PRECISION_F16:
        return CLT_F16;
    case CLT_PRECISION_BF16:
        return CLT_BF16;
    case CLT_PRECISION_AUTO:
        return ocl_has_unit(desc, CLT_BF16) ? CLT_BF16 : ocl_has_unit(desc, CLT_F16) ? CLT_F16 : CLT_F32;
    }
    return CLT_F32;
}

/* True for precision.matmul tf32 on a device that supports it. */
static bool read_tf32(const clt_job *job)
{
    return clt_config_choice(job->config, "precision.matmul") == CLT_MATMUL_TF32 &&
           ocl_has_unit(&job->desc, CLT_F32);
}

static void read_precision(clt_job *job)
{
    const clt_config *c = job->config;
    clt_scaling scaling = (clt_scaling)clt_config_choice(c, "precision.loss_scaling");
    job->storage = read_storage(c, &job->desc);
    bool automatic = scaling == CLT_SCALING_AUTO, dynamic = scaling == CLT_SCALING_DYNAMIC;
    job->update.scaling =
        (clt_loss_scaling){.on = automatic ? job->storage == CLT_F16 : scaling != CLT_SCALING_OFF,
                           .dynamic = automatic ? job->storage == CLT_F16 : dynamic,
                           .growth = clt_config_float(c, "precision.growth"),
                           .backoff = clt_config_float(c, "precision.backoff"),
                           .minimum = (float)clt_config_float(c, "precision.min_loss_scale"),
                           .interval = (uint32_t)clt_config_int(c, "precision.growth_interval")};
    if (job->storage == CLT_F32) /* f32 chosen by precision.mode auto */
        job->update.scaling.on = job->update.scaling.dynamic = false;
    job->loss_scale = (float)clt_config_float(c, "precision.loss_scale");
    bool lacks = clt_config_choice(c, "precision.matmul") == CLT_MATMUL_TF32 && !read_tf32(job);
    if (lacks && !job->told_tf32)
        CLT_WARN(
            "precision.matmul tf32: device '%s' has no matrix units for tf32 (mma_tf32); products of f32 "
            "keep all bits, as with ieee",
            job->desc.name);
    job->told_tf32 = lacks;
}

/* Communication dtype of parameter gradients. */
static clt_dtype read_wire(const clt_config *c)
{
    static const clt_dtype types[] = {
        [CLT_GRADIENTS_F32] = CLT_F32, [CLT_GRADIENTS_BF16] = CLT_BF16, [CLT_GRADIENTS_F16] = CLT_F16};
    return types[clt_config_choice(c, "parallel.gradients")];
}

static clt_bucket_sizes read_buckets(const clt_config *c)
{
    return (clt_bucket_sizes){.first = (uint64_t)(clt_config_float(c, "parallel.first_bucket_mb") * 1048576),
                              .rest = (uint64_t)(clt_config_float(c, "parallel.bucket_mb") * 1048576)};
}

static clt_plan_options plan_options(const clt_job *job, clt_plan_mode mode)
{
    bool train = mode == CLT_PLAN_TRAIN;
    clt_update_spec update = job->update;
    update.order = job->order;
    return (clt_plan_options){
        .mode = mode,
        .accumulation = train ? job->accumulation : 1,
        .tree = train && clt_config_bool(job->config, "parallel.rank_invariant"),
        .ranks = train ? job->ranks : 1,
        .part = train ? clt_job_part(job) : 1, /* generation has no batch */
        .sync_norms = train && job->ranks > 1 && clt_config_bool(job->config, "parallel.sync_batch_norm"),
        .present = train ? clt_job_ranks_with_max(job) : 1,
        .rank = job->rank,
        .shard = clt_config_choice(job->config, "parallel.shard") == CLT_SHARD_OPTIMIZER,
        .update = update,
        .storage = job->storage,
        .wide_residual = clt_config_choice(job->config, "precision.residual") == CLT_RESIDUAL_F32,
        .wire = read_wire(job->config),
        .buckets = read_buckets(job->config),
        .embeddings = (clt_embeddings)clt_config_choice(job->config, "parallel.embeddings"),
        .shared_memory = clt_config_bool(job->config, "parallel.shared_memory"),
        .tf32 = read_tf32(job),
        .recompute = train ? job->recompute : CLT_RECOMPUTE_NONE,
        /* a run that recomputes is short of memory */
        .transient = job->transient || (train && job->recompute != CLT_RECOMPUTE_NONE),
        .no_fuse = clt_config_choice(job->config, "train.fuse") == CLT_FUSING_OFF};
}

clt_status clt_job_plan_train(clt_job *job)
{
    clt_graph *graph;
    int32_t prediction;
    CLT_TRY(clt_job_graph(job->config, job->train_source, job->micro_batch, &graph, &prediction));
    clt_graph_tensor(graph, prediction)->is_output = false; /* training reads only losses */
    clt_plan_options options = plan_options(job, CLT_PLAN_TRAIN);
    return clt_plan_compute(graph, &job->desc, &options, &job->train);
}

/* The data source whose shapes the model is built for. Widths that come from the data (model.outputs 0) come
 * from the training data, or from the facts saved about it, because evaluation data may lack the last
 * class. */
static clt_source shapes_of(const clt_job *job)
{
    clt_source shapes = job->train_source ? *job->train_source : *job->eval_source;
    for (int i = 0; job->facts && i < shapes.n_fields; i++)
        for (int k = 0; k < job->facts->n_fields; k++)
            if (strcmp(job->facts->fields[k].name, shapes.fields[i].name) == 0)
                shapes.fields[i].max_value = job->facts->fields[k].max_value;
    const clt_source_field *x = &shapes.fields[0];
    if (job->facts && clt_config_float(job->config, "data.scale") == 0 && x->dtype != CLT_F32 &&
        job->facts->fields[0].dtype != CLT_F32)
        shapes.scale = job->facts->scale; /* the scale that the training data gave */
    return shapes;
}

clt_status clt_refuse_scale(const char *what, clt_dtype now, clt_dtype then, double scale)
{
    char text[CLT_NUMBER_TEXT];
    clt_double_text(scale, text);
    CLT_FAIL(CLT_ECONFIG,
             "%s: inputs are %s, the run was trained with %s, and data.scale was left to the data, which is "
             "%s for bytes and 1 for other numbers: give data.scale=%s if %s, else data.scale=1",
             what, clt_dtype_name(now), clt_dtype_name(then), text, text,
             then == CLT_F32 ? "the training's numbers were 0 to 1" : "these numbers are 0 to 255");
}

/* If the config leaves data.scale to the data, bytes are scaled and f32 numbers are not. Refuses an
 * evaluation with inputs of another type than in training, if their scale would differ. */
static clt_status check_scale(const clt_job *job)
{
    const clt_source *source = job->eval_source;
    if (!job->facts || !source || source->n_fields < 1 || job->facts->n_fields < 1 ||
        clt_config_float(job->config, "data.scale") != 0)
        return CLT_OK;
    clt_dtype then = job->facts->fields[0].dtype, now = source->fields[0].dtype;
    bool trained_scaled = then == CLT_U8 && now == CLT_F32 && job->facts->scale != 1,
         scaled = then == CLT_F32 && now == CLT_U8 && source->byte_scale;
    if (!trained_scaled && !scaled)
        return CLT_OK;
    return clt_refuse_scale("evaluating", now, then, scaled ? source->scale : job->facts->scale);
}

static clt_status model_graph(const clt_job *job, clt_graph **graph, int32_t *prediction)
{
    clt_source shapes = shapes_of(job);
    return clt_job_graph(job->config, &shapes, job->micro_batch, graph, prediction);
}

clt_status clt_job_plan_eval(clt_job *job)
{
    clt_graph *graph;
    CLT_TRY(model_graph(job, &graph, &job->prediction));
    clt_graph_tensor(graph, job->prediction)->is_output =
        job->predicts || clt_volumes_windowed(job->eval_source); /* Dice is computed from the prediction */
    clt_plan_options options = plan_options(job, CLT_PLAN_EVAL);
    options.layout = job->train ? job->train->layout : NULL;
    return clt_plan_compute(graph, &job->desc, &options, &job->eval);
}

/* The graph for generation: no data and no loss; keys and values stay on the device. */
static clt_status decode_graph(clt_job *job, clt_graph **out)
{
    const clt_json_doc *doc;
    const clt_json *model = clt_config_model(job->config, &doc);
    CLT_SCOPED(clt_graph) *graph = NULL;
    CLT_TRY(clt_graph_create(1, &graph));
    CLT_TRY(clt_model_build_decode(model, doc, clt_config_int(job->config, "model.vocab"), graph,
                                   &job->prediction, &job->context));
    *out = CLT_TAKE(graph);
    return CLT_OK;
}

static clt_status plan_decode(clt_job *job)
{
    clt_graph *graph;
    CLT_TRY(decode_graph(job, &graph));
    clt_plan_options options = plan_options(job, CLT_PLAN_EVAL);
    return clt_plan_compute(graph, &job->desc, &options, &job->eval);
}

static clt_status check_eval_data(const clt_config *c)
{
    if (clt_source_has_eval(c))
        return CLT_OK;
    CLT_FAIL(
        CLT_ECONFIG,
        "evaluating: the config names no evaluation data; give %s; --on train evaluates the training data",
        clt_source_type_of(c)->eval_hint);
}

static clt_status open_source(const clt_job *job, clt_split split, clt_source **out)
{
    /* a new training finds out itself what its targets are */
    bool trains = job->kind != CLT_JOB_EVAL;
    const clt_source_with with = {.table = job->known ? job->known->table : NULL,
                                  .table_may_differ = job->begins,
                                  .facts = trains && job->begins ? NULL : job->known,
                                  .training = split == CLT_SPLIT_EVAL ? job->train_source : NULL};
    return clt_source_open_with(job->config, split, &with, out);
}

static clt_status open_files(clt_job *job, clt_job_kind kind)
{
    bool has_eval = clt_source_has_eval(job->config);
    if (kind == CLT_JOB_TRAIN)
        CLT_TRY(open_source(job, CLT_SPLIT_TRAIN, &job->train_source));
    if (kind == CLT_JOB_TRAIN && job->train_source->type->advise)
        job->train_source->type->advise(job->train_source);
    if (kind == CLT_JOB_EVAL && job->on_train)
        return open_source(job, CLT_SPLIT_TRAIN_ONCE, &job->eval_source);
    if (kind == CLT_JOB_EVAL)
        CLT_TRY(check_eval_data(job->config));
    bool (*width_from_data)(const clt_config *config) = clt_model_family_of(job->config)->width_from_data;
    if (kind == CLT_JOB_EVAL && !job->facts && width_from_data && width_from_data(job->config))
        CLT_TRY(open_source(job, CLT_SPLIT_TRAIN, &job->train_source));
    if (has_eval)
        CLT_TRY(open_source(job, CLT_SPLIT_EVAL, &job->eval_source));
    return CLT_OK;
}

static clt_status open_sources(clt_job *job, clt_job_kind kind)
{
    if (kind == CLT_JOB_SYNTHETIC)
        return clt_source_open_like(job->config, &job->train_source);
    if (kind != CLT_JOB_DESCRIBE)
        return open_files(job, kind);
    clt_status status = open_files(job, CLT_JOB_TRAIN);
    if (status != CLT_EDATA || !clt_source_like_needs_no_files(job->config))
        return status;
    /* memory and commands depend on the config only, so a plan can be described before its text exists */
    snprintf(job->data_missing, sizeof job->data_missing, "%.500s", clt_error_text());
    clt_error_clear();
    clt_source_close(job->train_source);
    clt_source_close(job->eval_source);
    job->train_source = job->eval_source = NULL;
    CLT_TRY(clt_source_open_like(job->config, &job->train_source));
    return clt_source_has_eval(job->config) ? clt_source_open_like(job->config, &job->eval_source) : CLT_OK;
}

/* Sets what follows from the batch sizes and the data: steps, schedule, and the graph of a micro-batch. */
static clt_status decide_sizes(clt_job *job)
{
    int32_t prediction;
    CLT_TRY(clt_job_steps(job->config, (job->train_source ? job->train_source : job->eval_source)->samples,
                          job->global_batch, &job->steps));
    job->schedule = clt_job_schedule(job->config, job->steps, job->global_batch);
    CLT_TRY(read_update(job));
    clt_graph_destroy(job->model);
    job->model = NULL;
    return model_graph(job, &job->model, &prediction);
}

clt_status clt_job_set_micro_batch(clt_job *job, int64_t micro_batch)
{
    job->micro_batch = micro_batch;
    if (job->given_global == 0)
        job->global_batch = micro_batch * job->ranks;
    CLT_TRY(clt_job_check_batch(job));
    return decide_sizes(job);
}

/* True if a `cast` converts the tensor, perhaps after layers that only move elements. */
static bool is_cast(const clt_graph *graph, int32_t tensor)
{
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const clt_node *node = graph->nodes[i];
        for (int k = 0; k < node->n_in; k++)
            if (node->in[k] == tensor &&
                (strcmp(node->op->name, "cast") == 0 ||
                 ((node->op->flags & CLT_OP_MOVE) && node->n_out > 0 && is_cast(graph, node->out[0]))))
                return true;
    }
    return false;
}

/* Reports the scale of byte inputs if the config leaves data.scale to the data. Evaluations of a saved run
 * do not: its training has reported it. */
static void tell_scale(const clt_job *job)
{
    const clt_source *source = job->train_source ? job->train_source : job->eval_source;
    int32_t x = clt_graph_find_field(job->model, "x");
    if (!job->facts && !job->borrowed && source->byte_scale && x >= 0 &&
        is_cast(job->model, job->model->fields[x].tensor))
        CLT_INFO_ONCE("inputs are bytes, which become 0 to 1: data.scale is 1/255 unless it is given "
                      "(data.scale=1 leaves them as they are)");
}

/* Tells the sources that the model is a regression (clt_source_type.regress). If that changes their
 * targets, sizes and model are decided again. */
static clt_status regress(clt_job *job)
{
    clt_source *const sources[] = {job->train_source, job->eval_source};
    bool any = false;
    if (job->borrowed || !clt_job_is_regression(job->model))
        return CLT_OK;
    for (int i = 0; i < 2; i++) {
        bool changed = false;
        if (sources[i] && sources[i]->type->regress)
            CLT_TRY(sources[i]->type->regress(sources[i], &changed));
        any = any || changed;
    }
    return any ? decide_sizes(job) : CLT_OK;
}

/* Does everything that needs no device: data, batch sizes, and the model with the shapes of all
 * parameters. */
static clt_status decide(clt_job *job)
{
    if (job->kind == CLT_JOB_DECODE)
        return decode_graph(job, &job->model);
    CLT_TRY(clt_job_read_batch(job));
    if (!job->borrowed)
        CLT_TRY(open_sources(job, job->kind));
    CLT_TRY(check_scale(job));
    CLT_TRY(decide_sizes(job));
    CLT_TRY(regress(job));
    tell_scale(job);
    if (job->kind != CLT_JOB_EVAL)
        CLT_TRY(clt_job_check_targets(job->model, job->train_source));
    return clt_job_check_targets(job->model, job->eval_source);
}

void clt_job_see(clt_job *job, const ocl_device_desc *desc, const clt_update_order *order)
{
    job->desc = *desc;
    clt_job_view(job->config, &job->desc);
    job->order = *order;
    if (job->kind != CLT_JOB_DECODE)
        read_precision(job);
}

const char *clt_job_class_key(const clt_config *config)
{
    int best = clt_config_choice(config, "checkpoint.best");
    if (clt_config_bool(config, "train.eval_metrics"))
        return "train.eval_metrics";
    return best == CLT_BEST_TOP_K || best == CLT_BEST_F1 || best == CLT_BEST_DICE ? "checkpoint.best" : NULL;
}

static clt_status plan_all(clt_job *job)
{
    if (job->kind == CLT_JOB_DECODE)
        return plan_decode(job);
    return clt_job_plan_both(job, job->kind != CLT_JOB_EVAL, job->eval_source != NULL);
}

clt_status clt_job_open(const clt_config *config, const clt_job_data *data, int ranks, clt_job_kind kind,
                        clt_job **out)
{
    CLT_SCOPED(clt_job) *job = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&job, 1, sizeof *job, "job"));
    job->config = config;
    job->kind = kind;
    job->ranks = ranks;
    job->prediction = -1;
    bool trains = kind == CLT_JOB_TRAIN || kind == CLT_JOB_DESCRIBE;
    job->predicts = data->predicts || (trains && clt_job_class_key(config));
    job->recorded_micro = data->micro_batch;
    job->recorded_global = data->global_batch;
    job->facts = kind == CLT_JOB_EVAL ? data->facts : NULL;
    job->known = data->known ? data->known : job->facts;
    job->begins = data->begins;
    job->on_train = data->on_train;
    job->seed = (uint64_t)clt_config_int(config, "train.seed");
    job->recompute = (clt_recompute)clt_config_choice(config, "train.recompute");
    job->borrowed = data->source != NULL;
    job->train_source = job->eval_source = data->source;
    CLT_TRY(decide(job));
    job->known = NULL; /* sources have copied the facts */
    *out = CLT_TAKE(job);
    return CLT_OK;
}

void clt_job_view(const clt_config *config, ocl_device_desc *desc)
{
    if (desc->is_cpu && clt_config_bool(config, "parallel.rank_invariant"))
        desc->compute_units = INVARIANT_UNITS;
}

clt_status clt_job_plan(clt_job *job, const ocl_device_desc *desc, const clt_update_order *order)
{
    clt_job_see(job, desc, order);
    clt_job_warn_of_length(job);
    clt_status status = plan_all(job);
    return status == CLT_EDEVMEM && job->kind != CLT_JOB_DECODE ? clt_job_name_what_fits(job) : status;
}

clt_status clt_job_create(const clt_config *config, const ocl_device_desc *desc, int ranks, clt_job_kind kind,
                          clt_job **out)
{
    const clt_update_order own = {0};
    const clt_job_data data = {0};
    CLT_SCOPED(clt_job) *job = NULL;
    *out = NULL;
    CLT_TRY(clt_job_open(config, &data, ranks, kind, &job));
    CLT_TRY(clt_job_choose_micro_batch(job, desc, &own));
    CLT_TRY(clt_job_plan(job, desc, &own));
    *out = CLT_TAKE(job);
    return CLT_OK;
}

clt_status clt_job_replan(clt_job *job, const ocl_device_desc *desc)
{
    bool train = job->train != NULL, eval = job->eval != NULL;
    clt_plan_destroy(job->eval); /* first: it borrows the training plan's layout */
    clt_plan_destroy(job->train);
    job->train = job->eval = NULL;
    bool other_caps = job->desc.caps != desc->caps;
    job->desc = *desc;
    clt_job_view(job->config, &job->desc);
    if (job->kind == CLT_JOB_DECODE)
        return plan_decode(job);
    if (other_caps) /* precision.mode auto and tf32 depend on the capabilities */
        read_precision(job);
    return clt_job_plan_both(job, train, eval);
}

void clt_job_destroy(clt_job *job)
{
    if (!job)
        return;
    clt_plan_destroy(job->eval); /* first: it borrows the training plan's layout */
    clt_plan_destroy(job->train);
    clt_graph_destroy(job->model);
    if (!job->borrowed) {
        clt_source_close(job->train_source);
        clt_source_close(job->eval_source);
    }
    free(job);
}
